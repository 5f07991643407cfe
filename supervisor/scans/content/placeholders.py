"""
`placeholder`: work that is announced instead of done. Remarks that put it off, raises that say so, bodies without any.

What is meant to be empty is none: abstract methods and protocols, overloads, stub files, fakes in tests, methods that
say that they do nothing.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from forgepool.supervisor.findings import ScanFinding, Weight
from forgepool.supervisor.scans.content.stubs import stubs
from forgepool.supervisor.scans.source.grammar import SourceText
from forgepool.supervisor.scans.subject import finding

if TYPE_CHECKING:
    from tree_sitter import Node

RULE = "placeholder"

_MOST = 200
"""Nodes of one file that are looked at; more of them are more of the same."""
_LEADER = r"^[\s#/*;%<!\-@\[(>\"'.]*"
_PUT_OFF = re.compile(
    _LEADER + r"(?:TODO|FIXME)\b|\b(?:TODO|FIXME)\s*(?:\([^)]*\))?\s*:|\b(?:TODO|FIXME)[\s.!*/]*$"
    r"|" + _LEADER + r"(?i:todo|fixme)\s*(?:\(|:)"
)
_TRACKED = re.compile(r"(?:TODO|FIXME)\b.{0,20}?(?:#\d+|\b[A-Z][A-Z0-9]+-\d+\b|https?://)")
_UGLY = re.compile(_LEADER + r"(?:XXX|HACK)\b(?![-\w])|\b(?:XXX|HACK):")
_ABSENT = re.compile(
    r"\bnot (?:yet |been )?implemented(?: yet)?\b(?!\s*(?:by|in|for|on|error|exception|status|\()\b)"
    r"|\b(?:to be|needs to be|must still be|will be) (?:implemented|filled in|done later|completed later)\b"
    r"|\bimplement (?:me|this|it)?\s*(?:here|later|properly)\b|\bimplement me\b"
    r"|\b(?:your|actual|real|the rest of the|remaining) (?:code|logic|implementation) (?:goes |would go |comes )?here\b"
    r"|\b(?:placeholder|stub|dummy|mock) (?:implementation|logic|body|code) (?:for now|until|here)\b"
    r"|\bleft as (?:a|an) (?:todo|stub|placeholder|exercise)\b"
    r"|^[\s#/*]*(?:\.\.\.|…)\s*(?:\(?(?:the )?(?:existing|rest|remaining|other|previous|same)\b.*)"
    r"|^[\s#/*]*(?:the )?(?:rest|remainder) of (?:the |this )?(?:code|file|function|method|class|implementation)"
    r"\b.*\b(?:unchanged|same|here|as before)\b",
    re.IGNORECASE,
)
_SAYS_ABSENT = re.compile(
    r"\bnot (?:yet |been )?(?:implemented|supported yet)\b|\bunimplemented\b|\bTODO\b|\bFIXME\b|\bimplement me\b"
    r"|\bnot done yet\b|\bcoming soon\b",
    re.IGNORECASE,
)
_RAISES = {
    "python": ("raise_statement",),
    "javascript": ("throw_statement",),
    "typescript": ("throw_statement",),
    "tsx": ("throw_statement",),
    "go": ("call_expression",),
    "rust": ("macro_invocation",),
    "java": ("throw_statement",),
    "bash": ("command",),
}
_RAISING = {
    "javascript": re.compile(rb"throw\b"),
    "typescript": re.compile(rb"throw\b"),
    "tsx": re.compile(rb"throw\b"),
    "go": re.compile(rb"panic\s*\("),
    "java": re.compile(rb"throw\s+new\s+\w*(?:UnsupportedOperation|NotImplemented|IllegalState|Runtime)\w*"),
    "bash": re.compile(rb"(?:echo|printf|die|fail|error|log)\b"),
}
_IN_RUST = re.compile(rb"(?:todo|unimplemented)\s*!")
_NONE_MOVED = frozenset[str]()
_OUT_LOUD = "this says that the work is not done; do it, or leave it to another change"


def scan_placeholders(sources: tuple[SourceText, ...], moved: frozenset[str]) -> Iterator[ScanFinding]:
    """Of every source, remarks first; a line that was only moved is none."""
    for source in sources:
        yield from _remarks(source, moved)
        raised = _more(source, lambda side: (_spelled(one.text) for one in _raises(side, _NONE_MOVED)))
        yield from islice((one for one in _raises(source, moved) if raised[_spelled(one.text)]), _MOST)
        more = _more(source, lambda side: (stub.said for stub in stubs(side, _NONE_MOVED)))
        for stub in islice((one for one in stubs(source, moved) if more[one.said]), _MOST):
            yield finding(RULE, stub.weight, stub.said, source.file.path, stub.line, stub.text)


def _more(source: SourceText, found: Callable[[SourceText], Iterable[str]]) -> Counter[str]:
    """What is found in the file more often than before: that alone is new."""
    return Counter(found(source.whole)) - (Counter(found(source.before)) if source.old_text else Counter())


def _spelled(text: str) -> str:
    return " ".join(text.replace("'", '"').split())


def _remarks(source: SourceText, moved: frozenset[str]) -> Iterator[ScanFinding]:
    lines = {line.number: line.text for line in source.file.added}
    for remark in source.comments:
        whole = lines[remark.line]
        weight = _put_off(remark.text)
        if weight is not None and whole.strip() not in moved:
            said = "this comment postpones work; do the work, or remove the comment"
            yield finding(RULE, weight, said, source.file.path, remark.line, whole)


def _put_off(remark: str) -> Weight | None:
    text = remark[:2_000]
    if _PUT_OFF.search(text):
        return "attention" if _TRACKED.search(text) else "blocks"
    if _ABSENT.search(text):
        return "blocks"
    return "attention" if _UGLY.search(text) else None


def _raises(source: SourceText, moved: frozenset[str]) -> Iterator[ScanFinding]:
    """What says at run time that something is not implemented."""
    if source.language is None or source.too_much:
        return
    for node in source.nodes(*_RAISES[source.language]):
        line = node.start_point.row + 1
        if not source.adds(line):
            continue
        text = source.text_of(node)[:400]
        if _is_absent(source.language, text) and text.decode(errors="replace").strip() not in moved:
            weight: Weight = "note" if source.in_test or _in_rust_test(source, node) else _weight(source.language)
            yield finding(RULE, weight, _OUT_LOUD, source.file.path, line, text.decode(errors="replace"))


def _weight(language: str) -> Weight:
    return "attention" if language == "bash" else "blocks"


def _is_absent(language: str, text: bytes) -> bool:
    if language == "rust":
        return _IN_RUST.match(text) is not None
    if language == "java" and b"NotImplemented" in text:
        return True
    if language == "python":
        return _SAYS_ABSENT.search(_quoted(text)) is not None
    return _RAISING[language].match(text) is not None and _SAYS_ABSENT.search(_quoted(text)) is not None


def _quoted(text: bytes) -> str:
    """From the first quotation mark on: what is said, not the name of what says it."""
    found = re.search(rb"[\"'`]", text)
    return text[found.start() :].decode(errors="replace") if found else ""


def _in_rust_test(source: SourceText, node: "Node") -> bool:
    """Does it stand in a module that is compiled for tests alone?"""
    if source.language != "rust":
        return False
    above = node.parent
    for _ in range(20):
        if above is None:
            return False
        before = above.prev_named_sibling
        if above.type == "mod_item" and before is not None and b"cfg(test)" in source.text_of(before):
            return True
        above = above.parent
    return False
