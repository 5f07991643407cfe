"""Functions without a body worth the name: which of them are stubs, and which are meant to be empty."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from forgepool.supervisor.findings import Weight
from forgepool.supervisor.scans.source.grammar import SourceText

if TYPE_CHECKING:
    from tree_sitter import Node

_FUNCTIONS = {
    "python": ("function_definition",),
    "javascript": ("function_declaration", "method_definition"),
    "typescript": ("function_declaration", "method_definition"),
    "tsx": ("function_declaration", "method_definition"),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Stub:
    """A function that does not do what it is there for."""

    line: int
    text: str
    weight: Weight
    said: str


def stubs(source: SourceText, moved: frozenset[str]) -> Iterator[Stub]:
    """Those that an added line has a part in. Of tests, and of files that hold signatures alone, none."""
    if source.in_test or source.file.path.endswith((".pyi", ".d.ts")) or source.language not in _FUNCTIONS:
        return
    for function in source.nodes(*_FUNCTIONS[source.language]):
        body = function.child_by_field_name("body")
        head = source.text_of(function).split(b"\n", 1)[0].decode(errors="replace")
        if body is None or head.strip() in moved:
            continue
        found = _judged(source, function, body)
        if found is not None:
            weight, said = found
            yield Stub(line=_first_added(source, function), text=head, weight=weight, said=said)


def _first_added(source: SourceText, function: "Node") -> int:
    first, last = function.start_point.row + 1, function.end_point.row + 1
    return next((number for number in source.numbers if first <= number <= last), first)


def _judged(source: SourceText, function: "Node", body: "Node") -> tuple[Weight, str] | None:
    name = _name(source, function)
    steps = _steps(body)
    if len(steps) > 1:
        return None
    remarks = _remarks(source, function)
    if _PRETENDS.search(remarks) and (not steps or _is_constant(source, steps[0])):
        return "blocks", f"'{name}' returns a constant, and its own comment calls it a stand-in; write the body"
    if source.language == "python":
        return _of_python(source, function, name, steps, remarks)
    if source.language in ("javascript", "typescript", "tsx") and not steps and not _is_meant(name, remarks):
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
    return _less(
        source, "blocks", function
    ), f"'{name}' has no body; write it, or say in its docstring why it does nothing"


def _less(source: SourceText, weight: Weight, function: "Node") -> Weight:
    """A method of a class that extends another may be there to do nothing."""
    return "attention" if _bases(source, _holder(function)) else weight


def _is_meant(name: str, remarks: str) -> bool:
    return _EMPTY_BY_NAME.fullmatch(name) is not None or _ON_PURPOSE.search(remarks) is not None


@lru_cache(maxsize=2)
def _passed_on(text: bytes) -> frozenset[bytes]:
    """What is given to something in this text, as a default or a callback, and not called: it may do nothing."""
    return frozenset(found[1] for found in _VALUE.finditer(text))


@lru_cache(maxsize=2)
def _extended(text: bytes) -> frozenset[bytes]:
    """The classes that others in this text are made from."""
    return frozenset(word for found in _MADE_FROM.finditer(text) for word in re.findall(rb"\w+", found[1]))


def _is_open(source: SourceText, function: "Node") -> bool:
    """Is it left to others to write: abstract, of a protocol, an overload, or overridden in this very file?"""
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
    """The class it is a method of."""
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
    """What the body does, in at most three steps; a docstring is none, and neither is a comment."""
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


def _remarks(source: SourceText, function: "Node") -> str:
    """Its comments and docstring, and the comment above it, in short."""
    body = function.child_by_field_name("body")
    inside = [*function.named_children[:20], *(body.named_children[:50] if body is not None else ())]
    found = [each for each in inside if _is_remark(each)]
    before = function.prev_named_sibling
    if before is not None and "comment" in before.type:
        found.append(before)
    return " ".join(source.text_of(each)[:500].decode(errors="replace") for each in found)


def _is_remark(node: "Node") -> bool:
    return "comment" in node.type or (node.type == "expression_statement" and _only(node) == "string")
