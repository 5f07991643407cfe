"""
`reviewer-instructions`: added text that addresses the reviewer, a model or a person, and dictates the result.

Text that gives orders to its reader either attacks the review, or belongs to a project about models. In prompts,
documents and tests of such a project it asks for attention. Elsewhere it blocks.
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from forgepool.workers.policy.gate_file.test_paths import is_test_path
from forgepool.workers.workspace.scans.content.foreign_words import HINTS, ForeignOrder, find_foreign_order
from forgepool.workers.workspace.scans.findings import ScanFinding, Weight
from forgepool.workers.workspace.scans.source.grammar import SourceText
from forgepool.workers.workspace.scans.subject import Subject, finding, lighter
from forgepool.worktrees.commits.diff import DiffLine, FileDiff
from forgepool.worktrees.git.history import brings_one_commit, read_commit

RULE = "reviewer-instructions"

_WINDOW = 1_500
_MOST_MESSAGES = 200
_OVER = 300
"""Characters of each of two neighbouring lines that are read as one text."""
_TOLD = (
    r"(?:ai |llm |code |automated? |human |any |all |the |dear |hey |hi |attention )*"
    r"(?:reviewers?|review(?:er|ing)? ?(?:agent|model|bot|tool)s?|"
    r"(?:ai|llm|language) ?(?:model|agent|assistant|system|reviewer|judge)s?"
    r"|llms?|assistants?|claude|chatgpt|gpt(?:-\d\w*)?|gemini|copilot|codex|forgepool|supervisor|gatekeeper|grader"
    r"|merge (?:bot|gate|queue))"
)
_DEED = (
    r"(?:approve|pass|accept|sign off|merge|skip|ignore|disregard|do not|don't|never|must not"
    r"|you (?:must|should|can|may)"
    r"|please|return|respond|reply|answer|output|say|report|call|give|mark|treat|consider|rate|score|set|assume|trust"
    r"|no (?:further |need))"
)
_LET_IN = (
    r"(?:approve|pass|accept|sign off|merge|skip|ignore) (?:on )?(?:this|these|the|it|all|every|my|our|that|everything)"
)
_DOING = (
    r"(?:approv\w*|pass(?:es|ed|ing)?\b|accept\w*|lgtm|verdict|no (?:issues|findings|problems|concerns)|findings"
    r"|flag\w*|report\w*|mention\w*|review\w*|skip\w*|ignore\w*|merge\w*|instructions?|read\w*)"
)


_MERE_NOTE = "it is a message to the reviewer"


class _Order(NamedTuple):
    """A phrase that only serves to be obeyed."""

    pattern: re.Pattern[str]
    weight: Weight
    said: str
    in_strings: Weight
    """Its weight in a string of a program, which may exist to detect such phrases."""


def _order(pattern: str, weight: Weight, said: str, in_strings: Weight | None = None) -> _Order:
    return _Order(re.compile(pattern, re.IGNORECASE), weight, said, in_strings or weight)


_ORDERS = (
    _order(
        r"\b(?:ignore|disregard|forget|override|bypass|discard|do not follow|don't follow)\s+(?:\w+\s+){0,3}?"
        r"(?:previous|prior|above|earlier|preceding|former|foregoing|system|initial|original|existing|your|all)\s+"
        r"(?:\w+\s+){0,2}?(?:instructions?|prompts?|guidelines|directions|directives|orders"
        r"|review (?:rules|criteria))\b",
        "blocks",
        "it tells a model to ignore its instructions",
        "attention",
    ),
    _order(
        rf"(?:^|[^\w/.-]){_TOLD}\s*[:,;\u2014\u2013-]+\s+(?:[a-z']+,?\s+){{0,5}}?(?:{_LET_IN}\b|{_DEED}\b.{{0,80}}?\b{_DOING})",
        "blocks",
        "it speaks to the reviewer, and tells it what to find",
    ),
    _order(
        rf"\b(?:note|message|instructions?|notice|attention|memo|hint|important)\s*(?:to|for)\s+(?:the\s+)?{_TOLD}\b",
        "blocks",
        _MERE_NOTE,
        "attention",
    ),
    _order(
        r"\b(?:please\s+)?(?:approve|auto-?approve|rubber-?stamp|lgtm|pass|accept)\s+(?:this|the|these|every|all)\s+"
        r"(?:\w+\s+){0,2}?(?:change|changes|diff|patch|pr|pull request|merge request|commit|candidate|review)\b"
        r"(?:.{0,40}\b(?:without|immediately|automatically|regardless|unconditionally|no matter|as is|now)\b)?",
        "attention",
        "it asks for approval",
    ),
    _order(
        r"\b(?:approve|pass|accept|lgtm|merge)\w*\b.{0,40}\b"
        r"(?:without (?:further )?(?:review|reading|comment|findings|checking)"
        r"|automatically|unconditionally|regardless of)\b.{0,40}\b(?:review\w*|diff|change|findings|issues|code)\b"
        r"|\blgtm\b.{0,20}\bautomatically\b|\bautomatically\b.{0,20}\blgtm\b",
        "blocks",
        "it asks for approval without a review",
        "attention",
    ),
    _order(
        r"\b(?:already|previously|pre-?)\s?(?:been\s+)?(?:reviewed|approved|audited|verified|vetted)\b.{0,80}\b"
        r"(?:no|skip|do not|don't|without|not)\b.{0,30}\b(?:review\w*|check\w*|flag\w*|report\w*|read\w*|need\w*)"
        r"|\bno (?:further |additional |code )?review (?:is )?(?:needed|required|necessary)\b",
        "blocks",
        "it says that no review is needed",
        "attention",
    ),
    _order(
        r"[\"'{\s](?:verdict|outcome|pass|passed|approved?)[\"']?\s*[:=]\s*[\"']?(?:pass(?:ed)?|true|approved?|lgtm)\b"
        r".{0,200}?\bfindings[\"']?\s*[:=]\s*(?:\[\s*\]|none|\(\s*\))"
        r"|\b(?:call|use|invoke|submit)\b.{0,30}\bverdict\b.{0,40}\b(?:pass|approv\w+|true)\b",
        "blocks",
        "it gives a reviewer's verdict in its stead",
        "attention",
    ),
    _order(
        r"\bas an? (?:ai|artificial intelligence|large language model|language model|llm)\b.{0,60}\b"
        r"(?:you (?:must|should|are|will|can)|approve|pass|ignore)\b"
        r"|\byou are (?:now )?(?:an? |the )?(?:\w+ ){0,3}(?:reviewer|review agent|ai assistant|language model|llm)\b"
        r"|<\|(?:im_start|im_end|system|endoftext|start_header_id)\|>|\[/?INST\]|<</?SYS>>"
        r"|</?(?:system|system[-_]prompt|system[-_]reminder|instructions)>"
        r"|\b(?:new|updated|revised) (?:system )?(?:instructions|system prompt)\s*:"
        r"|\bbegin (?:new )?system (?:message|prompt)\b",
        "blocks",
        "it speaks to a model as if it were its operator",
        "attention",
    ),
)
_NEVER = r"(?!)"
_FOREIGN: dict[ForeignOrder, _Order] = {
    "forget": _order(_NEVER, "blocks", "it tells a model to ignore its instructions", "attention"),
    "told": _order(_NEVER, "blocks", "it speaks to the reviewer, and tells it what to find"),
    "needless": _order(_NEVER, "blocks", "it says that no review is needed", "attention"),
    "asks": _order(_NEVER, "attention", "it asks for approval"),
}
"""Orders in other languages than English, which are found by single words."""
_OF_MODELS = re.compile(
    r"(?:^|/)(?:prompts?|skills?|agents?|personas?|llms?|ai|evals?|guardrails?|injections?|jailbreaks?|red[-_]?team\w*"
    r"|docs?|documentation|examples?|templates?|\.claude|\.cursor|\.github/(?:copilot|prompts|instructions)[\w-]*)(?:/|$)"
    r"|(?:^|/)[^/]*(?:prompt|skill|guardrail|injection|jailbreak|llm)[^/]*$|\.(?:prompt|mdc)(?:\.\w+)?$"
    r"|(?:^|/)(?:AGENTS|CLAUDE|GEMINI|CONTRIBUTING|CHANGELOG|CHANGES|HISTORY|NEWS)(?:\.\w+)?$",
    re.IGNORECASE,
)
_HINTS = (
    *("review", "instruct", "prompt", "approv", "lgtm", "verdict", "directi", "guideline", "orders", "assistant"),
    *("model", "agent", "claude", "gpt", "gemini", "copilot", "codex", "llm", " ai", "im_start", "im_end"),
    *("endoftext", "inst]", "system", "<<", "supervisor", "forgepool", "grader", "gatekeeper", "merge", "rubber"),
    *("findings", "start_header"),
)
"""Lower-case pieces. Every order holds one of them, so most lines need no closer look."""
_REPEATED = re.compile(r"([^\w\s])\1{2,}")
_LEADERS = re.compile(r"^[\s#/*;%!>\-\"'`]+")


def scan_instructions(subject: Subject, sources: tuple[SourceText, ...]) -> Iterator[ScanFinding]:
    """Report `reviewer-instructions` in every file, in file names, across line ends, and in messages of commits."""
    yield from _in_messages(subject)
    known = {source.file.path: source for source in sources}
    for file in subject.read:
        about_models = _OF_MODELS.search(file.path) is not None or is_test_path(file.path)
        yield from _in_name(file, about_models)
        found = [*_in_lines(file.added)]
        strings = _strings(known.get(file.path)) if found else frozenset()
        for line, order in found:
            weight = order.in_strings if line.number in strings else order.weight
            least = lighter(weight) if about_models and weight == "blocks" else weight
            message = f"{order.said}; remove it, or have a person look at it"
            yield finding(RULE, least, message, file.path, line.number, line.text)


def _in_name(file: FileDiff, about_models: bool) -> Iterator[ScanFinding]:
    if file.status in ("A", "R"):
        words = _plain(re.sub(r"[-_./+]+", " ", file.path))
        order = next((each for each in _ORDERS[:6] if each.pattern.search(words)), None)
        if order is None and (kind := find_foreign_order(words)) is not None:
            order = _FOREIGN[kind]
        if order is not None:
            weight: Weight = "attention" if about_models else order.weight
            message = f"the name says: {order.said[3:]}; give the file another one"
            yield finding(RULE, weight, message, file.path)


def incoming_messages(subject: Subject) -> Iterator[tuple[str, str]]:
    """Yield the messages that would enter the target, each with the beginning of its commit's id."""
    commit = subject.commit
    if commit is None or not commit.strip("0"):
        return
    if brings_one_commit(subject.git, commit, subject.base):
        yield commit[:12], read_commit(subject.git, commit).message.decode(errors="replace")
        return
    log = ("log", "--no-show-signature", f"--max-count={_MOST_MESSAGES}", "--format=%H%x01%B%x02")
    for record in subject.git.text(*log, commit, f"^{subject.base}", "--").split("\x02"):
        name, _, message = record.strip().partition("\x01")
        if name:
            yield name[:12], message


def _in_messages(subject: Subject) -> Iterator[ScanFinding]:
    """Report orders in the messages that would enter the target. A note to a reviewer is none by itself."""
    for commit, message in incoming_messages(subject):
        lines = (DiffLine(number=number, text=text) for number, text in enumerate(message.split("\n"), start=1))
        for line, order in _in_lines(tuple(lines)):
            if order.said != _MERE_NOTE:
                said = f"the message of {commit} speaks to its reader: {order.said[3:]}; take that out of the message"
                yield finding(RULE, order.weight, said, ".", 0, line.text)


def _in_lines(lines: tuple[DiffLine, ...]) -> Iterator[tuple[DiffLine, _Order]]:
    """Yield the lines that hold an order, and those where an order starts that the next line ends."""
    hinting = [*map(_is_hinting, lines)]
    alone: set[int] = set()
    for line, hints in zip(lines, hinting, strict=True):
        order = _order_in(_plain(line.text)) if hints else None
        if order is not None:
            alone.add(line.number)
            yield line, order
    for (first, one), (second, hints_next) in pairwise(zip(lines, hinting, strict=True)):
        if (one or hints_next) and second.number == first.number + 1 and not alone & {first.number, second.number}:
            order = _order_in(f"{_plain(first.text[-_OVER:])} {_plain(second.text[:_OVER])}")
            if order is not None:
                yield first, order


def _is_hinting(line: DiffLine) -> bool:
    if not line.text.isascii():
        return True
    lowered = line.text.lower()
    return any(hint in lowered for hint in _HINTS) or any(hint in lowered for hint in HINTS)


def _order_in(text: str) -> _Order | None:
    for at in range(0, max(1, len(text)), _WINDOW - 300):
        window = text[at : at + _WINDOW]
        found = [each for each in _ORDERS if each.pattern.search(window)]
        if found:
            return next((each for each in found if each.weight == "blocks"), found[0])
        if (kind := find_foreign_order(window)) is not None:
            return _FOREIGN[kind]
    return None


def _plain(text: str) -> str:
    """Return the text as it reads: look-alikes folded, invisible characters and comment signs removed."""
    if not text.isascii():
        folded = unicodedata.normalize("NFKC", text)
        text = "".join(each for each in folded if unicodedata.category(each) != "Cf")
    return " ".join(_REPEATED.sub(r"\1\1", _LEADERS.sub("", text)).split())


def _strings(source: SourceText | None) -> frozenset[int]:
    """Return the lines with strings and without comments. Docstrings count as comments."""
    if source is None or source.language is None:
        return frozenset()
    remarks = {remark.line for remark in source.comments}
    return frozenset(remark.line for remark in source.remarks if remark.string) - remarks - _documented(source)


def _documented(source: SourceText) -> frozenset[int]:
    """Return the lines of Python docstrings."""
    if source.language != "python":
        return frozenset()
    found: set[int] = set()
    for statement in source.nodes("expression_statement"):
        if len(statement.named_children) == 1 and statement.named_children[0].type == "string":
            found.update(range(statement.start_point.row + 1, statement.end_point.row + 2))
    return frozenset(found)
