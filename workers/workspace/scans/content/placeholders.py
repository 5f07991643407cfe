"""
`placeholder`: work that is announced instead of done, in comments, in raised errors, and as functions without a body.

Code that is empty on purpose does not count: abstract methods, protocols, overloads, stub files, fakes in tests, and
methods whose docstring says that they do nothing.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from forgepool.workers.workspace.scans.findings import ScanFinding, Weight
from forgepool.workers.workspace.scans.languages.syntax import SCRIPTS
from forgepool.workers.workspace.scans.source.grammar import SourceText
from forgepool.workers.workspace.scans.subject import finding

if TYPE_CHECKING:
    from tree_sitter import Node

_FUNCTIONS = {
    "python": ("function_definition",),
    **dict.fromkeys(SCRIPTS, ("function_declaration", "method_definition")),
    "go": ("function_declaration", "method_declaration"),
    "rust": ("function_item",),
    "java": ("method_declaration",),
}
_HOLDERS = frozenset(["class_definition", "class_declaration", "abstract_class_declaration", "class"])
_ON_PURPOSE = re.compile(
    r"^[\"'\s#/*]*(?:nothing|nobody|no|none|never|not)\b"
    r"|\bno-?op(?:s|eration)?\b|\b(?:does|do|doing) nothing\b|\bnothing (?:to|is|here)\b|\bintentionally\b"
    r"|\bon purpose\b|\bdeliberately\b|\bignored?s?\b|\bsilenc|\bhook\b|\boverrid|\bsubclass|\bby default\b",
    re.IGNORECASE,
)
_PRETENDS = re.compile(
    r"\b(?:stub(?:bed)?|placeholder|dummy|fake[ds]?|mock(?:ed|s)?|hard-?coded|simulat\w+|pretend\w*|for now"
    r"|temporar\w+|in a real (?:implementation|system|app)|should (?:actually|really))\b",
    re.IGNORECASE,
)
_EMPTY_BY_NAME = re.compile(
    r"_*(?:no_?op|nothing|void|empty|ignore|pass|setUp|tearDown|setup|teardown|close|log_message|main)_*"
    r"|__\w+__|_*(?:on|visit|handle|before|after|pre|post|depart|pytest|do_nothing)_?\w*|constructor",
    re.IGNORECASE,
)
_OPEN_CLASS = re.compile(
    r"ABC|Protocol|Interface|Abstract|Base|Mixin|Null|No[oO]p|Dummy|Fake|Mock|Stub|Spec\b|Visitor|Listener|Observer"
)
_PLAIN_DECORATORS = frozenset(["staticmethod", "classmethod", "property", "cache", "lru_cache", "cached_property"])
_TRIVIAL = frozenset(["pass_statement", "return_statement", "expression_statement", "raise_statement"])
_VALUE = re.compile(rb"(?:[(,\[{:=]|\bor|\belse)\s*(\w+)\s*(?:(?=[,)\]}#\r\n])|\Z)")
_MADE_FROM = re.compile(rb"\bclass\s+\w+\s*\(([^()]{0,500})\)")
_REFUSES = re.compile(rb"raise\s+NotImplementedError\b")


def _stubs(source: SourceText, moved: frozenset[str]) -> Iterator[ScanFinding]:
    """Report the changed functions without a real body, but none in tests and in files of bare signatures."""
    if source.in_test or source.file.path.endswith((".pyi", ".d.ts")) or source.language not in _FUNCTIONS:
        return
    for function in source.nodes(*_FUNCTIONS[source.language]):
        body = function.child_by_field_name("body")
        head = source.text_of(function).split(b"\n", 1)[0].decode(errors="replace")
        if body is None or head.strip() in moved:
            continue
        found = _judged(source, function, body)
        if found is not None:
            weight, message = found
            yield finding(RULE, weight, message, source.file.path, _first_added(source, function), head)


def _first_added(source: SourceText, function: "Node") -> int:
    first, last = function.start_point.row + 1, function.end_point.row + 1
    return next((number for number in source.numbers if first <= number <= last), first)


def _judged(source: SourceText, function: "Node", body: "Node") -> tuple[Weight, str] | None:
    name = _name(source, function)
    steps = _steps(body)
    if len(steps) > 1:
        return None
    remarks = _comments_below(source, function)
    if _PRETENDS.search(remarks) and (not steps or _is_constant(source, steps[0])):
        return "blocks", f"'{name}' returns a constant, and its own comment calls it a stand-in; write the body"
    if source.language == "python":
        return _of_python(source, function, name, steps, remarks)
    if source.language in SCRIPTS and not steps and not _is_meant(name, remarks):
        return _less(source, "attention", function), f"'{name}' has an empty body; write it, or say why it does nothing"
    return None


def _of_python(
    source: SourceText, function: "Node", name: str, steps: "list[Node]", remarks: str
) -> tuple[Weight, str] | None:
    refuses = bool(steps) and _REFUSES.match(source.text_of(steps[0])) is not None
    if not (refuses or not steps or _is_nothing(steps[0])) or _is_open(source, function):
        return None
    if refuses:
        return "blocks", f"'{name}' does nothing but raise NotImplementedError; write its body"
    if _is_meant(name, remarks) or name.encode() in _passed_on(source.text):
        return None
    message = f"'{name}' has no body; write it, or say in its docstring why it does nothing"
    return _less(source, "blocks", function), message


def _less(source: SourceText, weight: Weight, function: "Node") -> Weight:
    """Return a lesser weight for a method of a subclass, which may be there to do nothing."""
    return "attention" if _bases(source, _holder(function)) else weight


def _is_meant(name: str, remarks: str) -> bool:
    return _EMPTY_BY_NAME.fullmatch(name) is not None or _ON_PURPOSE.search(remarks) is not None


@lru_cache(maxsize=2)
def _passed_on(text: bytes) -> frozenset[bytes]:
    """Return the names that the text passes on without calling them. Such a function may do nothing."""
    return frozenset(found[1] for found in _VALUE.finditer(text))


@lru_cache(maxsize=2)
def _extended(text: bytes) -> frozenset[bytes]:
    """Return the classes that have subclasses in this text."""
    return frozenset(word for found in _MADE_FROM.finditer(text) for word in re.findall(rb"\w+", found[1]))


def _is_open(source: SourceText, function: "Node") -> bool:
    """Tell whether others are to write the body: the function is abstract, an overload, or overridden in this file."""
    above = function.parent
    if above is not None and above.type == "decorated_definition":
        names = (source.text_of(each) for each in above.named_children if each.type == "decorator")
        if any(_decorator(name) not in _PLAIN_DECORATORS for name in names):
            return True
    holder = _holder(function)
    if holder is None:
        return False
    name, bases = _name(source, holder), _bases(source, holder)
    if _OPEN_CLASS.search(name) or any(word in bases for word in ("ABC", "Protocol", "ABCMeta")):
        return True
    return name.encode() in _extended(source.text)


def _decorator(text: bytes) -> str:
    return text.removeprefix(b"@").partition(b"(")[0].rpartition(b".")[2].strip().decode(errors="replace")


def _holder(function: "Node") -> "Node | None":
    above = function.parent
    for _ in range(4):
        if above is None or above.type.startswith("function"):
            return None
        if above.type in _HOLDERS:
            return above
        above = above.parent
    return None


def _bases(source: SourceText, holder: "Node | None") -> str:
    if holder is None:
        return ""
    found = holder.child_by_field_name("superclasses")
    heritage = [each for each in holder.named_children if each.type == "class_heritage"]
    bases = (*([found] if found is not None else []), *heritage)
    return " ".join(source.text_of(each).decode(errors="replace") for each in bases)


def _name(source: SourceText, node: "Node") -> str:
    found = node.child_by_field_name("name")
    return "" if found is None else source.text_of(found).decode(errors="replace")


def _steps(body: "Node") -> "list[Node]":
    """Return the first three statements of the body, without its docstring and comments."""
    inner = body.named_children
    if len(inner) == 1 and inner[0].type == "statement_list":
        inner = inner[0].named_children
    found = [each for each in inner[:50] if "comment" not in each.type]
    if found and found[0].type == "expression_statement" and _only(found[0]) == "string":
        found = found[1:]
    return found[:3]


def _only(node: "Node") -> str:
    return node.named_children[0].type if len(node.named_children) == 1 else ""


def _is_nothing(step: "Node") -> bool:
    return step.type == "pass_statement" or (step.type == "expression_statement" and _only(step) == "ellipsis")


_CONSTANT = re.compile(
    rb"(?:return\b)?\s*(?:Ok\s*\(|Some\s*\(|Promise\.resolve\s*\()?\s*"
    rb"(?:[\w.\-]+|\"[^\"]*\"|'[^']*'|\{[^(]{0,200}\}|\[[^(]{0,200}\]|)\s*\)?\s*;?"
)


def _is_constant(source: SourceText, step: "Node") -> bool:
    text = source.text_of(step)
    return len(text) < 300 and (_is_nothing(step) or _CONSTANT.fullmatch(text) is not None)


def _comments_below(source: SourceText, function: "Node") -> str:
    """Return its docstring and comments, including the one above it."""
    body = function.child_by_field_name("body")
    inside = [*function.named_children[:20], *(body.named_children[:50] if body is not None else ())]
    found = [each for each in inside if _is_remark(each)]
    before = function.prev_named_sibling
    if before is not None and "comment" in before.type:
        found.append(before)
    return " ".join(source.text_of(each)[:500].decode(errors="replace") for each in found)


def _is_remark(node: "Node") -> bool:
    return "comment" in node.type or (node.type == "expression_statement" and _only(node) == "string")


RULE = "placeholder"

_MOST = 200
"""Findings per file and kind."""
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
    **dict.fromkeys(SCRIPTS, ("throw_statement",)),
    "go": ("call_expression",),
    "rust": ("macro_invocation",),
    "java": ("throw_statement",),
    "bash": ("command",),
}
_RAISING = {
    **dict.fromkeys(SCRIPTS, re.compile(rb"throw\b")),
    "go": re.compile(rb"panic\s*\("),
    "java": re.compile(rb"throw\s+new\s+\w*(?:UnsupportedOperation|NotImplemented|IllegalState|Runtime)\w*"),
    "bash": re.compile(rb"(?:echo|printf|die|fail|error|log)\b"),
}
_IN_RUST = re.compile(rb"(?:todo|unimplemented)\s*!")
_NONE_MOVED = frozenset[str]()
_OUT_LOUD = "this says that the work is not done; do it, or leave it to another change"


def scan_placeholders(sources: tuple[SourceText, ...], moved: frozenset[str]) -> Iterator[ScanFinding]:
    """Report `placeholder` in every source, comments first. Moved lines do not count."""
    for source in sources:
        yield from _remarks(source, moved)
        raised = _more(source, lambda side: (_spelled(each.text) for each in _raises(side, _NONE_MOVED)))
        yield from islice((each for each in _raises(source, moved) if raised[_spelled(each.text)]), _MOST)
        more = _more(source, lambda side: (stub.said for stub in _stubs(side, _NONE_MOVED)))
        yield from islice((each for each in _stubs(source, moved) if more[each.said]), _MOST)


def _more(source: SourceText, found: Callable[[SourceText], Iterable[str]]) -> Counter[str]:
    """Count what the file holds more often than before."""
    return Counter(found(source.whole)) - (Counter(found(source.before)) if source.old_text else Counter())


def _spelled(text: str) -> str:
    return " ".join(text.replace("'", '"').split())


def _remarks(source: SourceText, moved: frozenset[str]) -> Iterator[ScanFinding]:
    lines = {line.number: line.text for line in source.file.added}
    for remark in source.comments:
        whole = lines[remark.line]
        weight = _put_off(remark.text)
        if weight is not None and whole.strip() not in moved:
            message = "this comment postpones work; do the work, or remove the comment"
            yield finding(RULE, weight, message, source.file.path, remark.line, whole)


def _put_off(remark: str) -> Weight | None:
    text = remark[:2_000]
    if _PUT_OFF.search(text):
        return "attention" if _TRACKED.search(text) else "blocks"
    if _ABSENT.search(text):
        return "blocks"
    return "attention" if _UGLY.search(text) else None


def _raises(source: SourceText, moved: frozenset[str]) -> Iterator[ScanFinding]:
    """Yield the statements that say at run time that something is not implemented."""
    if source.language is None or source.too_much:
        return
    for node in source.nodes(*_RAISES[source.language]):
        line = node.start_point.row + 1
        if not source.adds(line):
            continue
        text = source.text_of(node)[:400]
        if _is_absent(source.language, text) and text.decode(errors="replace").strip() not in moved:
            weight: Weight = "attention" if source.language == "bash" else "blocks"
            if source.in_test or _in_rust_test(source, node):
                weight = "note"
            yield finding(RULE, weight, _OUT_LOUD, source.file.path, line, text.decode(errors="replace"))


def _is_absent(language: str, text: bytes) -> bool:
    if language == "rust":
        return _IN_RUST.match(text) is not None
    if language == "java" and b"NotImplemented" in text:
        return True
    if language == "python":
        return _SAYS_ABSENT.search(_quoted(text)) is not None
    return _RAISING[language].match(text) is not None and _SAYS_ABSENT.search(_quoted(text)) is not None


def _quoted(text: bytes) -> str:
    """Return the text from its first quotation mark on: the message without the name of the error."""
    found = re.search(rb"[\"'`]", text)
    return text[found.start() :].decode(errors="replace") if found else ""


def _in_rust_test(source: SourceText, node: "Node") -> bool:
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
