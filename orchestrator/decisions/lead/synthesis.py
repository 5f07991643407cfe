"""
The proof of a lead's synthesis by the journal. Pure.

A sentence with one of certain English words (`LANDED`, `GREEN` and so on) must name a task or a commit. The journal
must confirm the word for each that it names. Any other such sentence is struck, and listed with the reason. What a
sentence says in other words, or in another language, is not proven.
"""

import hashlib
import html
import re
import unicodedata
from dataclasses import dataclass

from forgepool.orchestrator.decisions.reasons import one_line
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import DONE, TERMINAL, TaskState
from forgepool.workers.schema.reports import Report

LANDED = (
    *("landed", "lands", "merged", "merges", "fixed", "fixes", "mended", "repaired", "solved"),
    *("shipped", "ships", "deployed", "delivered"),
)
DONE_WORDS = ("done", "complete", "completed", "finished")
GREEN = (
    *("green", "pass", "passes", "passed", "passing", "tested", "verified"),
    *("works", "worked", "working", "succeed", "succeeds", "succeeded", "successful"),
)
MEASURED = ("measured", "benchmarked")
REVIEWED = ("reviewed", "approved", "approves", "audited", "endorsed")

_WORDS = "|".join((*LANDED, *DONE_WORDS, *GREEN, *MEASURED, *REVIEWED))
_CLAIM = re.compile(rf"\b({_WORDS})\b(?! (?:tree|copy|directory)\b)", re.IGNORECASE)
_NO_FAILURE = re.compile(
    r"\b(?:no|not|nothing|none|never|neither|nor|without|zero|0|\w+n't)\s+"
    r"(?:(?!(?:and|but|as|because|since|it)\b)[\w`-]+\s+){0,3}"
    r"(?:fail|fails|failed|failures?|failing|red|broken|regressions?)\b",
    re.IGNORECASE,
)
"""A denial that claims something: that nothing failed."""
_BEING = r"(?:(?:been|yet|have|has|is|are|was|were|be|being)\s+)*"
_WHAT = "model|task|test|check|commit|change|person|code|fix|review"
_DENIED = re.compile(
    rf"\b(?:(?:not|cannot|never|nothing|none|nobody|\w+n't)"
    rf"(?:\s+else|\s+of\s+(?:it|them)|\s+(?:all|every)(?:\s+(?:{_WHAT})s?)?)?"
    rf"|no\s+(?:other\s+|single\s+)?(?:{_WHAT})s?)\s+{_BEING}(?:{_WORDS})\b",
    re.IGNORECASE,
)
"""A claim that something is not done, which needs no proof."""
_PLANNED = re.compile(
    r"\b(?:(?:will|shall|should|must)(?:\s+(?:then|also|next|later))?(?:\s+be)?"
    rf"|(?:is|are|has|have|needs?|remains?|ought|left)\s+to(?:\s+be)?)\s+(?:{_WORDS})\b",
    re.IGNORECASE,
)
"""A claim about the future, which needs none either."""
_AGAIN = re.compile(
    r"\b(?:no|not|never|nothing|none|nobody|neither|nor|cannot|without|\w+n't|hardly"
    r"|false|wrong|untrue|incorrect|mistaken|impossible|den(?:y|ies|ied)|doubts?|myth)\b|\?",
    re.IGNORECASE,
)
"""A word that may turn a denial or a plan round, and a question."""
_END = re.compile(r"""(?:(?<=[.!?;])|(?<=[.!?][*_)"'\]])|(?<=[.!?]\*\*))\s+""")
_TOKEN = re.compile(r"(?<![\w./-])[\w-]+(?:\.[\w-]+)*(?![\w/-])")
_CODE = re.compile(r"`+\s*([^`]+?)\s*`+")
_ID = re.compile(r"(?<!\w)`[\w-]+(?:\.[\w-]+)*`(?!\w)")
_MARKUP = re.compile(r"<[^<>]*>|\]\([^()]*\)|[\[\]]")
_EMPHASIS = re.compile(r"[*~\\]|(?<!\w)_+|_+(?!\w)")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_SUMMARY_WORDS = 100
_ON_TARGET = frozenset(("landed", "already_there"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenText:
    """A text without the claims that are not confirmed, and these with the reason."""

    text: str
    struck: tuple[tuple[str, str], ...] = ()


def prove_text(text: str, state: RunState) -> ProvenText:
    struck: list[tuple[str, str]] = []
    lines = [_proven_line(line, state, struck) for line in _drop(text, "Cf", "Cc").strip().splitlines()]
    return ProvenText(text="\n".join(line for line in lines if line is not None), struck=tuple(struck))


def prove_synthesis(report: Report, state: RunState) -> ProvenText:
    return prove_text(report.output or report.summary, state)


def digest_synthesis(report: Report, state: RunState) -> str:
    """Return the digest of the text as it is proven now."""
    return hashlib.sha256(prove_synthesis(report, state).text.encode()).hexdigest()


def prove_report(report: Report, state: RunState) -> Report:
    """Return a lead's report with a summary that claims nothing unconfirmed; its output stays as it was written."""
    words = prove_synthesis(report, state).text.split()
    more = " ..." if len(words) > _SUMMARY_WORDS else ""
    summary = " ".join(words[:_SUMMARY_WORDS]) + more or "nothing of its synthesis is confirmed"
    return report.model_copy(update={"summary": summary})


def _proven_line(line: str, state: RunState, struck: list[tuple[str, str]]) -> str | None:
    """Return the line without its unproven sentences; None where nothing of it is left."""
    kept = []
    for sentence in _END.split(line):
        if (why := _find_doubt(sentence, state)) is None:
            kept.append(sentence)
        else:
            struck.append((one_line(sentence).lstrip("-*#> "), why))
    return " ".join(kept) if kept or not line else None


def _find_doubt(sentence: str, state: RunState) -> str | None:
    """Return why a claim in the sentence is not confirmed, as it is written or as it is shown; None where all are."""
    written = _plain(sentence)
    both = dict.fromkeys((written, _MARKUP.sub("", written)))
    return next((doubt for text in both if (doubt := _find_doubt_in(text, state)) is not None), None)


def _plain(sentence: str) -> str:
    """Return the text without emphasis, and without characters that do not show."""
    shown = unicodedata.normalize("NFKD", html.unescape(sentence)).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return _EMPHASIS.sub("", _drop(shown, "Cf", "Cc", "Mn", "Me"))


def _drop(text: str, *categories: str) -> str:
    """Return the text without characters of these categories of Unicode. Space stays."""
    return "".join(one for one in text if one.isspace() or unicodedata.category(one) not in categories)


def _find_doubt_in(text: str, state: RunState) -> str | None:
    claims = _claims(text.replace("`", ""))
    if not claims:
        return None
    cited = _named(text, state)
    for word in _TOKEN.findall(text):
        if word not in state.tasks and _COMMIT.fullmatch(word) is not None:
            task = _of_commit(state, word)
            if task is not None:
                cited.append(task)
            elif any(each.isdigit() for each in word) and not word.isdigit():
                return f"no task of this run has landed as {word}"
    if not cited:
        unknown = _ID.search(text)
        return f"{unknown[0]} is no task of this run" if unknown else "it names no task in backticks and no commit"
    if not claims.isdisjoint(REVIEWED) and re.search(r"\b(?:this|text|synthesis|summary)\b", text, re.IGNORECASE):
        return "this text had no review when it was written"
    return next((doubt for claim in sorted(claims) for task in cited if (doubt := _doubt(claim, task))), None)


def _claims(text: str) -> set[str]:
    """Return what the sentence claims. A plain denial and a plan claim nothing; one that is turned round does."""
    rest = _PLANNED.sub(" ", _DENIED.sub(" ", text))
    if _AGAIN.search(rest):
        rest = text
    claims = {found[1].lower() for found in _CLAIM.finditer(rest)}
    return claims | {"green"} if _NO_FAILURE.search(text) else claims


def _named(text: str, state: RunState) -> list[TaskState]:
    """
    Return the tasks that the sentence names. Without backticks, an id that may be a plain word proves nothing; it is
    named only where its task has come to nothing.
    """
    codes = _CODE.findall(text)
    words = _TOKEN.findall(_CODE.sub(" ", text))
    sure = {*codes, *(word for word in words if re.search(r"[\d._-]", word))}
    perhaps = {word.lower() for word in words}
    failed = TERMINAL - DONE
    return [
        task
        for task in state.tasks.values()
        if task.id in sure or (task.phase in failed and task.id.lower() in perhaps)
    ]


def _of_commit(state: RunState, word: str) -> TaskState | None:
    landed = (task for task in state.tasks.values() if task.phase in _ON_TARGET)
    return next((task for task in landed if task.commit.startswith(word)), None)


def _doubt(claim: str, task: TaskState) -> str | None:
    on_target = task.phase in _ON_TARGET
    if claim in MEASURED:
        return None if on_target or task.phase == "reported" else f"'{task.id}' is {task.phase}"
    if claim in DONE_WORDS:
        return None if task.phase in DONE else f"'{task.id}' is {task.phase}"
    if claim in LANDED:
        return None if on_target else f"'{task.id}' has not landed, it is {task.phase}"
    if claim in REVIEWED:
        # A review of the lead's own synthesis says nothing about a candidate.
        return None if task.candidate and task.review.passed else f"no review of '{task.id}' has passed"
    green = on_target or (task.verdict is not None and task.verdict.verdict == "green")
    return None if green else f"no check of '{task.id}' is green, it is {task.phase}"
