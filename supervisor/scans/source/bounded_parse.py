"""
Parse source files with tree-sitter's grammars, within bounds.

Grammars are C code that was written for honest files. Deep nesting takes down the whole process, and some take minutes
for a few kilobytes of nonsense. Their steps are counted, not timed: the same file has the same answer on every host.
"""

import re
import threading
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

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
"""Brackets within each other; people nest a few dozen."""
_MOST_ANGLES = 50_000
"""Signs that open a bracket or compare."""
_STACK = 512 << 20
"""Bytes, reserved and not used. Eight megabytes are enough for some hundred thousand signs nested in each other."""
_STACKS = threading.Lock()
"""How large a thread's stack becomes is said for the whole process."""
_MOST_READ = 20
"""Times that a text may be read in all; one that people wrote is read twice."""
_MOST_STEPS = 50
"""For a thousand bytes, as a grammar counts them; what people write takes five to twenty."""
_LARGE = 250_000
"""Bytes from which on a step may take far longer: all limits below are for larger texts alone."""
_MOST_STEPS_OF_LARGE = 40
"""For a thousand bytes."""
_LONGEST_STRETCH = 50_000
"""Bytes without an end of anything: an error behind so many signs nested in each other takes the square of them."""
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
    """The grammar for a file, by its suffix, else by its first line."""
    name = path.rpartition("/")[2]
    if "." in name.lstrip("."):
        return _SUFFIXES.get(name.rpartition(".")[2].lower())
    words = text[:200].split(b"\n")[0].removeprefix(b"#!").split() if text.startswith(b"#!") else []
    program = next((word for word in reversed(words[:2]) if not word.startswith(b"-")), b"").rpartition(b"/")[2]
    return _INTERPRETERS.get(program.rstrip(b"0123456789."))


def parse(language: str, text: bytes, *, texts: bool = False) -> "Node | None":
    """
    The tree of a text; None where it is too deeply nested, or costs the grammar too much. With `texts` its nodes know
    their own, for which it is read a second time: on this stack, as the usual one overflows then as well.
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
