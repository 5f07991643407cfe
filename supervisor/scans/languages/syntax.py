"""
What the trees of all languages have in common: tokens, texts, lines.

Trees are walked without recursion: a file may be nested as deeply as whoever wrote it likes.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from forgepool.supervisor.scans.languages.suite import CodeToken, name_set
from forgepool.supervisor.scans.source.bounded_parse import parse as bounded_parse

if TYPE_CHECKING:
    from tree_sitter import Node

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


def parse(language: str, source: bytes) -> "Node | None":
    """The tree of a source; of one that is broken, as much as can be made out. None where it is too much to be read."""
    return bounded_parse(language, source, texts=True)


def walk(*roots: "Node", into: "Callable[[Node], bool]" = lambda _: True) -> "Iterator[Node]":
    """Every named node in the order of the text; below one that `into` refuses, none."""
    waiting = list(reversed(roots))
    while waiting:
        node = waiting.pop()
        yield node
        if into(node):
            waiting.extend(reversed(node.named_children))


def text_of(node: "Node | None") -> str:
    """The text of a node, as it stands."""
    return "" if node is None or node.text is None else node.text.decode(errors="replace")


def line_of(node: "Node") -> int:
    return node.start_point.row + 1


def first_line(node: "Node") -> str:
    return text_of(node).strip().split("\n", 1)[0][:120]


def words(*nodes: "Node | None") -> tuple[CodeToken, ...]:
    """The tokens of some nodes, comments, layout and quotation marks left out, numbers with their sign."""
    return tuple(_words([node for node in nodes if node is not None]))


_HOW_SHOWN = ("format_specifier", "type_conversion")
"""Parts of an f-string that say how a value is shown: `:.5f`, `!r`."""


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
    if kind in _CONSTANTS or kind in _PIECES or _is_number(node):
        return CodeToken("literal", text)
    if kind.endswith("identifier") or kind in _NAMES:
        return CodeToken("name", text)
    return CodeToken("sign", text) if text else None


def _is_number(node: "Node") -> bool:
    return node.type in ("integer", "float") or node.type.endswith("_literal")


def _string(node: "Node") -> str:
    """The content of a string; a prefix that changes what it is belongs to it, its quotation marks do not."""
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
