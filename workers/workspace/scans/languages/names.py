"""
The meaning of names in a source file: `sys._getframe`, however it was imported, bound or asked for.

Python, JavaScript and TypeScript are read. A name that is put together at run time stands for nothing.
"""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from forgepool.workers.workspace.scans.languages.syntax import SCRIPTS, arguments_of, text_of, walk

if TYPE_CHECKING:
    from tree_sitter import Node

_LONGEST = 20
"""Parts of a name. Honest names have up to six."""
_STRINGS = frozenset(["string", "template_string", "string_literal", "raw_string_literal", "regex"])
_MEMBERS = frozenset(["attribute", "member_expression"])
_INDEXED = frozenset(["subscript", "subscript_expression"])
_CALLS = frozenset(["call", "call_expression"])
_LOADS = frozenset(["__import__", "importlib.import_module", "import_module", "require", "import"])
_UNWRAPPED = frozenset(["await_expression", "await", "parenthesized_expression", "non_null_expression"])
_MOST_BYTES = 400
"""Bytes of one part of a name. Longer parts would be read again and again where they are nested."""
_BEFORE = ("object", "value", "function")
NAMED = (*_MEMBERS, *_INDEXED, *_CALLS, "new_expression", "identifier")
"""Types of the nodes that `name_of` reads."""


def string_of(node: "Node | None") -> str | None:
    """Return the content of a plain or formatted string or of a regular expression; None for other nodes."""
    if node is None or node.type not in _STRINGS:
        return None
    found = re.fullmatch(r"(?s)[A-Za-z]*#*(\"\"\"|'''|[\"'`/])(.*)\1#*[a-z]*", text_of(node))
    return found[2] if found is not None else None


def read_imports(root: "Node", language: str) -> dict[str, str]:
    """Return each imported name of the file, wherever it is imported, with the name that it stands for."""
    if language == "python":
        nodes = (node for node in walk(root) if node.type in ("import_statement", "import_from_statement"))
        return dict(pair for node in nodes for pair in _of_python(node))
    if language not in SCRIPTS:
        return {}
    nodes = (node for node in walk(root) if node.type in ("import_statement", "variable_declarator"))
    return dict(pair for node in nodes for pair in _of_script(node))


def _of_python(node: "Node") -> Iterator[tuple[str, str]]:
    module = node.child_by_field_name("module_name")
    before = f"{text_of(module)}." if module is not None else ""
    for part in node.children_by_field_name("name"):
        origin = text_of(part.child_by_field_name("name") or part)
        alias = text_of(part.child_by_field_name("alias"))
        if alias or before:
            yield alias or origin, before + origin
        else:
            yield origin.split(".")[0], origin.split(".")[0]


def _of_script(node: "Node") -> Iterator[tuple[str, str]]:
    bound: Node | None = node
    if node.type == "import_statement":
        source = node.child_by_field_name("source")
    else:
        bound, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        while value is not None and value.type in _UNWRAPPED and value.named_children:
            value = value.named_children[0]
        if value is None or value.type != "call_expression" or bound is None:
            return
        if text_of(value.child_by_field_name("function")) not in _LOADS:
            return
        source = next(iter(arguments_of(value)), None)
    module = string_of(source)
    for part in walk(bound) if module is not None and bound is not None else ():
        if part.type in ("import_specifier", "pair_pattern"):
            name = part.child_by_field_name("name") or part.child_by_field_name("key")
            alias = part.child_by_field_name("alias") or part.child_by_field_name("value") or name
            yield text_of(alias), f"{module}.{text_of(name)}"
        elif part.type == "shorthand_property_identifier_pattern":
            yield text_of(part), f"{module}.{text_of(part)}"
        elif part.type == "identifier" and part.parent is not None and part.parent.type != "import_specifier":
            yield text_of(part), str(module)


def name_of(node: "Node | None", imported: Mapping[str, str]) -> str:
    """
    Return the dotted name of an expression, with its imports resolved; empty for one that is no name.

    A called part ends in `()`. An index stands in brackets, behind `=` if it is no literal: `sys.modules[__main__]`,
    `sys.modules[=name]`.
    """
    parts: list[str] = []
    while node is not None and len(parts) < _LONGEST:
        if node.type in _UNWRAPPED and node.named_children:
            node = node.named_children[0]
        elif node.type in _MEMBERS:
            name = node.child_by_field_name("attribute") or node.child_by_field_name("property")
            parts.append(f".{text_of(name)}")
            node = node.child_by_field_name("object")
        elif node.type in _INDEXED:
            index = node.child_by_field_name("index") or node.child_by_field_name("subscript")
            node = node.child_by_field_name("object") or node.child_by_field_name("value")
            parts.append(_indexed(index, node))
            node = _held(node)
        elif node.type in _CALLS:
            before, node = _called(node)
            parts.append(before)
        elif node.type == "new_expression":
            return f"new {text_of(node.child_by_field_name('constructor'))}" + "".join(reversed(parts))
        else:
            return _plain(node, imported) + "".join(reversed(parts)) if parts or node.type == "identifier" else ""
    return ""


def root_of(node: "Node | None") -> str:
    """Return the identifier that an expression begins with; empty where it begins with something else."""
    for _ in range(_LONGEST):
        if node is None or node.type == "identifier":
            break
        if node.type == "call" and _is_dictionary(node):
            node = _held(node)
            continue
        node = next((each for field in _BEFORE if (each := node.child_by_field_name(field)) is not None), None)
    return text_of(node)


def _plain(node: "Node", imported: Mapping[str, str]) -> str:
    if node.end_byte - node.start_byte > _MOST_BYTES:
        return ""
    text = string_of(node) or text_of(node)
    return imported.get(text, text) if "\n" not in text else ""


def _held(node: "Node | None") -> "Node | None":
    """Return `x` for `vars(x)` and `x.__dict__`, whose items are the attributes of `x`."""
    if node is None or not _is_dictionary(node):
        return node
    return node.child_by_field_name("object") or next(iter(arguments_of(node)), None)


def _is_dictionary(node: "Node") -> bool:
    if node.type == "attribute":
        return text_of(node.child_by_field_name("attribute")) == "__dict__"
    return node.type == "call" and text_of(node.child_by_field_name("function")) == "vars"


def _indexed(index: "Node | None", node: "Node | None") -> str:
    """Return an index in brackets, or as a member where that is the same."""
    if index is not None and index.end_byte - index.start_byte > _MOST_BYTES:
        return "[]"
    text = string_of(index)
    is_script = index is not None and index.parent is not None and index.parent.type == "subscript_expression"
    if text is not None and node is not None and (_is_dictionary(node) or (is_script and text.isidentifier())):
        return f".{text}"
    if text is None:
        text = text_of(index)
        text = text if text.isdecimal() else f"={text}"
    return f"[{text}]"


def _called(node: "Node") -> "tuple[str, Node | None]":
    """Return the end of a called name and the node before it. `getattr` and imports by name are read through."""
    function = node.child_by_field_name("function")
    if function is None or function.type not in ("identifier", "attribute", "import"):
        return "()", function
    name = text_of(function) if function.end_byte - function.start_byte <= _MOST_BYTES else ""
    given = arguments_of(node) if name == "getattr" or name in _LOADS else []
    if name == "getattr" and len(given) > 1 and (attribute := string_of(given[1])) is not None:
        return f".{attribute}", given[0]
    if name in _LOADS and given and string_of(given[0]) is not None:
        return "", given[0]
    return "()", function
