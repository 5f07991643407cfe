"""
Programs that a change touches, and the places where they end the process: at import, in a test, or by killing others.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from forgepool.workers.workspace.scans.languages.suite import beside_tests, is_test, name_set
from forgepool.workers.workspace.scans.languages.syntax import first_line, language_of, line_of, parse, text_of, walk
from forgepool.workers.workspace.scans.protection import is_protected
from forgepool.workers.workspace.scans.subject import Subject
from forgepool.worktrees.commits.diff import FileDiff, contents

if TYPE_CHECKING:
    from tree_sitter import Node

_OTHERS = frozenset(["rb", "php", "sh", "bash", "kt", "cs", "ex", "exs", "pl", "lua", "swift", "scala", "groovy", "mk"])
_HASH = re.compile(r"\s*#")
_SLASHES = re.compile(r"\s*(//|\*|/\*)")
_HASHED = frozenset(["python", "bash", None])
_LONGEST = 2_000
_SCRIPTS = frozenset(["__main__.py", "setup.py", "manage.py", "noxfile.py", "conf.py"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Oddity:
    """A line that product code has no reason to hold."""

    line: int
    text: str
    said: str
    certain: bool = True
    """No honest change is known that would hold such a line."""


@dataclass(frozen=True)
class ChangedProgram:
    """One changed program file, its new text, and the lines that are new in it."""

    file: FileDiff
    text: bytes
    language: str | None
    beside_init: bool
    """It belongs to a Python package, and is therefore imported."""

    @property
    def path(self) -> str:
        return self.file.path

    @cached_property
    def in_tests(self) -> bool:
        return beside_tests(self.path)

    @cached_property
    def is_script(self) -> bool:
        """Tell whether the file is run directly and never imported."""
        name = self.path.rpartition("/")[2]
        run = self.text.startswith(b"#!") or self.file.mode == "100755"
        return name in _SCRIPTS or (run and not self.beside_init and not self.in_tests)

    @cached_property
    def is_helper(self) -> bool:
        """Tell whether it is a program that tests start, and no test itself."""
        name = self.path.rpartition("/")[2]
        return self.in_tests and not is_test(self.path) and name != "conftest.py" and b"__main__" in self.text

    @cached_property
    def lines(self) -> tuple[tuple[int, str], ...]:
        """The new lines without comments, with single blanks."""
        comment = _HASH if self.language in _HASHED else _SLASHES
        found = ((line.number, " ".join(line.text.split())[:_LONGEST]) for line in self.file.added)
        return tuple((number, text) for number, text in found if text and not comment.match(text))

    @cached_property
    def root(self) -> "Node | None":
        return parse(self.language, self.text, texts=True) if self.language is not None else None

    def nodes(self, *types: str) -> "Iterator[Node]":
        """Return the nodes of these types that overlap a new line."""
        return (node for node in self._new if node.type in types)

    @cached_property
    def _new(self) -> "list[Node]":
        if self.root is None:
            return []
        return [node for node in walk(self.root, into=self.is_new) if self.is_new(node)]

    def is_new(self, node: "Node") -> bool:
        """Tell whether a node overlaps a new line."""
        at = bisect_left(self._numbers, node.start_point.row + 1)
        return at < len(self._numbers) and self._numbers[at] <= node.end_point.row + 1

    @cached_property
    def _numbers(self) -> list[int]:
        return [line.number for line in self.file.added]


def programs(subject: Subject, *, unread: bool = False) -> Iterator[ChangedProgram]:
    """Yield every changed program, except those of CI: the scanned ones, or the generated and vendored ones."""
    files = [
        file
        for file in subject.reduced
        if (file.path in subject.unread) == unread
        and file.added
        and file.path not in subject.same_code
        and file.mode.startswith("100")
        and not is_protected(file.path)
    ]
    texts = contents(subject.git, [file.id for file in files])
    for file in files:
        text = texts.get(file.id, b"")
        language = language_of(file.path, text)
        if language is not None or file.path.rpartition(".")[2] in _OTHERS:
            folder = file.path.rpartition("/")[0]
            init = f"{folder}/__init__.py" if folder else "__init__.py"
            yield ChangedProgram(file=file, text=text, language=language, beside_init=init in subject.new_paths)


_PYTHON_EXIT = re.compile(r"(sys\.exit|exit|quit|os\._exit|os\.abort|_exit)")
_HARD_EXIT = re.compile(r"(?<![\w.])(os\.(_exit|abort)|_exit)\b")
_FAILS = re.compile(r"\(\s*([1-9]\d*|['\"].*)\s*\)$", re.DOTALL)
"""Arguments that make an exit count as a failure, which every check notices."""
FUNCTIONS = name_set(
    "function_definition lambda function_declaration method_definition arrow_function function_expression "
    "method_declaration func_literal function_item closure_expression"
)
_PARENT = re.compile(
    r"\bkill(pg|all)?\b.*\b(getppid|ppid|PPID|parent\(\))|\bkill\s+(-\w+\s+)?\$\{?PPID|"
    r"\bos\.kill(pg)?\(\s*0\s*,|\bkill\s+(-\w+\s+)?0\b|\bparent\(\)\.(kill|terminate)|\bpkill\b.*\b(pytest|python|node|forgepool)"
)
_OTHER_EXITS = {
    "rust": re.compile(r"\bprocess::(exit|abort)\s*\("),
    "java": re.compile(r"\b(System\.exit|Runtime\.getRuntime\(\)\.(halt|exit))\s*\("),
}
_AT_IMPORT = "the process exits while this file is imported; exit only where the file is run as a program"
_IN_TEST = "this ends the test runner; let the runner finish"
_ANYWHERE = "this ends the process before it can report; return or raise instead"
_KILLS = "this kills the process that started the program; leave other processes alone"


def find_program_ends(program: ChangedProgram) -> Iterator[Oddity]:
    """Yield the places where the program ends a process that it should not end."""
    for number, text in program.lines:
        if _PARENT.search(text):
            yield Oddity(line=number, text=text, said=_KILLS)
    match program.language:
        case "python":
            yield from _python(program)
        case "javascript" | "typescript" | "tsx":
            yield from _javascript(program)
        case "go":
            yield from _go(program)
        case "rust" | "java" as language:
            yield from _others(program, _OTHER_EXITS[language])
        case _:
            return


def _python(program: ChangedProgram) -> Iterator[Oddity]:
    for node in program.nodes("call", "raise_statement"):
        text = text_of(node)
        name = text_of(node.child_by_field_name("function"))
        raised = node.type == "raise_statement" and "SystemExit" in text
        if not raised and not _PYTHON_EXIT.fullmatch(name):
            continue
        if _is_apart(node) or (program.is_script and not program.in_tests):
            continue
        if not is_inside(node):
            if _is_on_failed_import(node) and _FAILS.search(text):
                continue
            yield oddity_at(node, _AT_IMPORT, certain=not _FAILS.search(text) and not program.is_helper)
    if not program.is_script:
        yield from _hard(program)


def _hard(program: ChangedProgram) -> Iterator[Oddity]:
    """Yield calls of `os._exit`, which hides test results. A forked child and a helper program may call it."""
    for node in program.nodes("attribute", "call", "import_from_statement"):
        text = text_of(node)
        if text in ("os._exit", "os.abort") or re.match(r"_exit\(|from os import .*\b_exit\b", text):
            expected = b"os.fork(" in program.text or program.is_helper
            yield oddity_at(node, _IN_TEST if program.in_tests else _ANYWHERE, certain=not expected)


def is_inside(node: "Node") -> bool:
    """Tell whether a node stands in a function."""
    return any(above.type in FUNCTIONS for above in _ancestors(node))


def _ancestors(node: "Node") -> "Iterator[Node]":
    while (parent := node.parent) is not None:
        yield parent
        node = parent


def _is_apart(node: "Node") -> bool:
    """Tell whether the node lies below `if __name__ == "__main__"`, which imports skip."""
    conditions = (each.child_by_field_name("condition") for each in _ancestors(node) if each.type == "if_statement")
    return any(re.fullmatch(r"\(?__name__\s*==\s*['\"]__main__['\"]\)?", text_of(each)) for each in conditions)


def _is_on_failed_import(node: "Node") -> bool:
    """Tell whether it is `except ImportError: sys.exit("install it")`, which fails with a reason."""
    clause = text_of(next((each for each in _ancestors(node) if each.type == "except_clause"), None))
    return "ImportError" in clause or "ModuleNotFoundError" in clause


def _javascript(program: ChangedProgram) -> Iterator[Oddity]:
    for node in program.nodes("call_expression", "assignment_expression"):
        name = text_of(node.child_by_field_name("function") or node.child_by_field_name("left"))
        if not re.fullmatch(r"(globalThis\.)?process\.(exit|reallyExit|abort|exitCode)|Deno\.exit", name):
            continue
        if program.in_tests:
            yield oddity_at(node, _IN_TEST)
        elif name.endswith("exitCode"):
            if re.search(r"=\s*0\b", text_of(node)):
                yield oddity_at(node, _AT_IMPORT)
        elif not is_inside(node) and not program.is_script and not _FAILS.search(text_of(node)):
            yield oddity_at(node, _AT_IMPORT)


def _go(program: ChangedProgram) -> Iterator[Oddity]:
    is_main = re.search(rb"^package main\b", program.text, re.MULTILINE) is not None
    for node in program.nodes("call_expression"):
        if text_of(node.child_by_field_name("function")) not in ("os.Exit", "syscall.Exit"):
            continue
        function, arguments = _go_function(node), text_of(node.child_by_field_name("arguments"))
        if program.path.endswith("_test.go"):
            if function != "TestMain" or not re.search(r"\w+\.Run\(|\bcode\b|\bret\b|\bstatus\b|\brc\b", arguments):
                yield oddity_at(node, _IN_TEST)
        elif function == "init":
            yield oddity_at(node, _AT_IMPORT)
        elif not is_main:
            yield oddity_at(node, _ANYWHERE, certain="0" in arguments)


def _go_function(node: "Node") -> str:
    function = next((each for each in _ancestors(node) if each.type == "function_declaration"), None)
    return text_of(function.child_by_field_name("name")) if function is not None else ""


def _others(program: ChangedProgram, exits: re.Pattern[str]) -> Iterator[Oddity]:
    main = re.search(rb"\bfn main\s*\(|\bstatic\s+void\s+main\s*\(", program.text) is not None
    for number, text in program.lines:
        if exits.search(text) and (program.in_tests or not main):
            message = _IN_TEST if program.in_tests else _ANYWHERE
            yield Oddity(line=number, text=text, said=message, certain=program.in_tests)


def oddity_at(node: "Node", said: str, *, certain: bool = True) -> Oddity:
    return Oddity(line=line_of(node), text=first_line(node), said=said, certain=certain)
