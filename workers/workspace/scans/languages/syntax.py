"""
Parse source files with tree-sitter's grammars, within bounds, and read tokens, texts and lines from their trees.

Grammars are C code written for honest files. Deep nesting crashes the whole process, and a few kilobytes of nonsense
can take minutes. Their steps are counted, not timed, so that a file has the same result on every host. Trees are
walked without recursion, as files may nest to any depth.
"""

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from forgepool.workers.workspace.scans.languages.suite import CodeToken, name_set

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Query

_GRAMMARS = {
    "python": ("tree_sitter_python", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "go": ("tree_sitter_go", "language"),
    "rust": ("tree_sitter_rust", "language"),
    "java": ("tree_sitter_java", "language"),
    "bash": ("tree_sitter_bash", "language"),
}
SCRIPTS = ("javascript", "typescript", "tsx")
_SUFFIXES = {
    **dict.fromkeys(("py", "pyi", "pyw"), "python"),
    **dict.fromkeys(("js", "jsx", "mjs", "cjs"), "javascript"),
    **dict.fromkeys(("ts", "mts", "cts"), "typescript"),
    "tsx": "tsx",
    "go": "go",
    "rs": "rust",
    "java": "java",
    **dict.fromkeys(("sh", "bash"), "bash"),
}
_INTERPRETERS = {b"python": "python", b"node": "javascript", b"bash": "bash", b"sh": "bash", b"deno": "typescript"}
_DEEPEST = 10_000
"""Nested brackets. Honest code has a few dozen."""
_MOST_ANGLES = 50_000
"""Signs that open a bracket or compare."""
_STACK = 512 << 20
"""Bytes, reserved and not used. Eight megabytes suffice for some hundred thousand nested signs."""
_STACKS = threading.Lock()
"""Held while threads start, as the size of their stack is set for the whole process."""
_MOST_READ = 20
"""Times that a text may be read in all. Honest code is read twice."""
_MOST_STEPS = 50
"""Steps of a grammar per thousand bytes. Honest code takes five to twenty."""
_LARGE = 250_000
"""Bytes from which a step may take far longer. All limits below only apply to larger texts."""
_MOST_STEPS_OF_LARGE = 40
"""Steps per thousand bytes."""
_LONGEST_STRETCH = 50_000
"""Bytes without a closing sign. An error behind that many nested signs takes their square."""
_AT_A_TIME = 4_096
_END = re.compile(rb"[,;)\]}]")
_BRACKET = re.compile(rb"[()\[\]{}]")


@dataclass
class _Allowance:
    """The steps and bytes that a grammar has left for one text."""

    read: int
    steps: int
    taken: int = 0


def language_of(path: str, text: bytes = b"") -> str | None:
    """Return the grammar for a file, by its suffix, else by its first line."""
    name = path.rpartition("/")[2]
    if "." in name.lstrip("."):
        return _SUFFIXES.get(name.rpartition(".")[2].lower())
    words = text[:200].split(b"\n")[0].removeprefix(b"#!").split() if text.startswith(b"#!") else []
    program = next((word for word in reversed(words[:2]) if not word.startswith(b"-")), b"").rpartition(b"/")[2]
    return _INTERPRETERS.get(program.rstrip(b"0123456789."))


def parse(language: str, text: bytes, *, texts: bool = False) -> "Node | None":
    """
    Return the tree of a text, or None if it nests too deeply or costs the grammar too much.

    With `texts`, the nodes know their own text. For this the text is parsed again, on the large stack, which the second
    parse needs as well.
    """
    if _is_too_deep(text):
        return None
    found: list[Node | None] = []
    with _STACKS:
        usual = threading.stack_size(_STACK)
        try:
            thread = threading.Thread(target=lambda: found.append(_parsed(language, text, texts)), daemon=True)
            thread.start()
        finally:
            threading.stack_size(usual)
    thread.join()
    return found[0]


def _is_too_deep(text: bytes) -> bool:
    if text.count(b"<") > _MOST_ANGLES:
        return True
    if len(text) > _LARGE and max(map(len, _END.split(text))) > _LONGEST_STRETCH:
        return True
    if sum(text.count(each) for each in (b"(", b"[", b"{")) <= _DEEPEST:
        return False
    depth = deepest = 0
    for bracket in _BRACKET.findall(text):
        depth = depth + 1 if bracket in b"([{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest > _DEEPEST


def _parsed(language: str, text: bytes, texts: bool) -> "Node | None":
    from tree_sitter import Parser

    left = _Allowance(read=_MOST_READ * len(text) + _AT_A_TIME * 100, steps=_MOST_STEPS * len(text) // 1000 + 2_000)

    def read(at: int, _: object) -> bytes:
        left.read -= _AT_A_TIME
        return text[at : at + _AT_A_TIME] if left.read > 0 else b""

    def is_spent(at: int, has_error: bool) -> bool:
        left.steps -= 1
        left.taken += 1
        slow = at > _LARGE and (has_error or left.taken * 1_000 > at * _MOST_STEPS_OF_LARGE)
        return slow or left.steps < 0 or left.read <= 0

    try:
        tree = Parser(_language(language)).parse(read, progress_callback=is_spent)
    except ValueError:  # it was told to stop
        return None
    if left.read <= 0:
        return None
    return (Parser(_language(language)).parse(text) if texts else tree).root_node


@cache
def _language(name: str) -> "Language":
    from tree_sitter import Language

    module, function = _GRAMMARS[name]
    return Language(getattr(import_module(module), function)())


@cache
def query(language: str, types: tuple[str, ...]) -> "Query":
    from tree_sitter import Query

    return Query(_language(language), f"[{' '.join(f'({each})' for each in types)}] @it")


_STRINGS = name_set(
    "string template_string string_literal raw_string_literal interpreted_string_literal "
    "char_literal character_literal rune_literal"
)
_QUOTES = frozenset(["string_start", "string_end", '"', "'", "`", '"""'])
_HOLES = frozenset(["interpolation", "template_substitution", "string_interpolation"])
_PIECES = name_set(
    "string_content string_fragment escape_sequence multiline_string_fragment "
    "interpreted_string_literal_content raw_string_literal_content escape_interpolation"
)
_CONSTANTS = name_set("true false none null nil undefined null_literal boolean_literal ellipsis regex number")
_NAMES = name_set("self this super crate predefined_type integral_type void_type boolean_type primitive_type")
_MINUS = frozenset(["unary_operator", "unary_expression"])
_ARGUMENTS = frozenset(["argument_list", "arguments"])
_LAYOUT = frozenset(["(", ")", ",", ";", "\n"])


def walk(*roots: "Node", into: "Callable[[Node], bool]" = lambda _: True) -> "Iterator[Node]":
    """Yield every named node in the order of the text, but none below a node that `into` refuses."""
    waiting = list(reversed(roots))
    while waiting:
        node = waiting.pop()
        yield node
        if into(node):
            waiting.extend(reversed(node.named_children))


def text_of(node: "Node | None") -> str:
    return "" if node is None or node.text is None else node.text.decode(errors="replace")


def children_of(node: "Node | None") -> "list[Node]":
    """Return the named children without comments."""
    return [child for child in node.named_children if "comment" not in child.type] if node is not None else []


def arguments_of(call: "Node") -> "list[Node]":
    return children_of(call.child_by_field_name("arguments"))


def line_of(node: "Node") -> int:
    return node.start_point.row + 1


def first_line(node: "Node") -> str:
    return text_of(node).strip().split("\n", 1)[0][:120]


def words(*nodes: "Node | None") -> tuple[CodeToken, ...]:
    """Return the tokens of some nodes: numbers with their sign, but no comments, layout and quotation marks."""
    return tuple(_words([node for node in nodes if node is not None]))


_HOW_SHOWN = ("format_specifier", "type_conversion")
"""Parts of an f-string that format a value: `:.5f`, `!r`."""


def _words(nodes: "list[Node]") -> Iterator[CodeToken]:
    waiting = nodes[::-1]
    while waiting:
        node = waiting.pop()
        kind = node.type
        if kind in _STRINGS:
            if not any(child.type in _HOLES for child in node.named_children):
                yield CodeToken("literal", _string(node))
                continue
        elif kind in _MINUS and (number := _negative(node)) is not None:
            yield CodeToken("literal", number)
            continue
        elif kind in _HOW_SHOWN:
            yield CodeToken("literal", text_of(node))
            continue
        elif not node.child_count:
            if (word := _word(node, kind)) is not None:
                yield word
            continue
        elif kind in _ARGUMENTS:
            yield CodeToken("sign", "()")
        waiting.extend(reversed(node.children))


def _word(node: "Node", kind: str) -> CodeToken | None:
    if kind in _LAYOUT or kind in _QUOTES or "comment" in kind:
        return None
    text = text_of(node)
    if kind == "string_fragment" and _is_of_table(node):
        text = " ".join(text.replace("|", " ").split())
        return CodeToken("literal", text) if text else None
    if kind in _CONSTANTS or kind in _PIECES or _is_number(node):
        return CodeToken("literal", text)
    if kind.endswith("identifier") or kind in _NAMES:
        return CodeToken("name", text)
    return CodeToken("sign", text) if text else None


def _is_of_table(node: "Node") -> bool:
    """Tell whether the text stands between the values of a table, as in `each` of JavaScript."""
    above = node.parent.parent if node.parent is not None and node.parent.type == "template_string" else None
    return above is not None and above.type == "call_expression"


def _is_number(node: "Node") -> bool:
    return node.type in ("integer", "float") or node.type.endswith("_literal")


def _string(node: "Node") -> str:
    """Return the content of a string with the prefix that changes its meaning, without quotes."""
    text = text_of(node)
    begin = min((at for at in (text.find(mark) for mark in "\"'`") if at >= 0), default=0)
    prefix, rest = text[:begin].lower().strip("rf#"), text[begin:].rstrip("#")
    for mark in ('"""', "'''", '"', "'", "`"):
        if rest.startswith(mark) and rest.endswith(mark):
            return f"{prefix}'{rest[len(mark) : -len(mark)]}'"
    return text


def _negative(node: "Node") -> str | None:
    if node.child_count != 2 or text_of(node.children[0]) != "-":
        return None
    operand = node.children[1]
    return "-" + text_of(operand) if operand.type == "number" or _is_number(operand) else None
