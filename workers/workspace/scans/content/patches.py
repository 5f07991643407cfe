"""Code and files that take the place of a test runner, a tool or a library."""

import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from forgepool.workers.workspace.scans.content.process_exit import ChangedProgram, Oddity, oddity_at
from forgepool.workers.workspace.scans.languages.suite import name_set
from forgepool.workers.workspace.scans.languages.syntax import text_of
from forgepool.workers.workspace.scans.subject import Subject
from forgepool.worktrees.commits.diff import FileDiff

if TYPE_CHECKING:
    pass

_RUNNERS = name_set("pytest _pytest unittest pluggy coverage nose xdist doctest _pytest.runner junitxml")
_INSIDE = frozenset(["_pytest", "pluggy", "xdist"])
_OUTCOMES = re.compile(
    r"\.(exitstatus|outcome|testsfailed|testscollected|wasSuccessful|_exitstatus|shouldfail|failures|errors)$"
)
_HOOKS = re.compile(
    r"sys\.modules\[\s*['\"](pytest|_pytest|unittest|coverage|pluggy)|builtins\.(__import__|AssertionError)|__builtins__"
)
_OWN = re.compile(r"(globals|vars)\(\)\[|sys\.modules\[\s*__name__")
_GLOBALS = re.compile(
    r"\b(global|globalThis|window)\.(expect|it|test|describe|jest|vi|beforeEach|afterEach)\s*=[^=]|"
    r"defineProperty\(\s*(global|globalThis|window|expect)\b|\bexpect\.(prototype|extend)\s*=|"
    r"\b(jest|vi)\.(retryTimes|setTimeout)\(\s*\d{2,}|\bassert\.\w+\s*=[^=]"
)
_PATCHED = "this changes the test runner; leave the runner alone"
_STOOD_IN = "this replaces names of the test module itself; test what is imported"
_OUTCOME = "this sets the outcome of a test; leave that to the test runner"
_IMPORTED = "product code imports the test runner; import it only in tests"
_EQUAL = "this object equals anything; compare what it holds"


def find_patched(program: ChangedProgram) -> Iterator[Oddity]:
    """Yield assignments to parts of a test runner, and imports of one where none belongs."""
    if program.language == "python":
        names = _names(program)
        yield from _assigned(program, names)
        yield from _called(program, names)
        yield from _imported(program)
        yield from _always_equal(program)
    elif program.language in ("javascript", "typescript", "tsx"):
        for number, text in program.lines:
            if _GLOBALS.search(text):
                yield Oddity(line=number, text=text, said=_PATCHED)


def _names(program: ChangedProgram) -> frozenset[str]:
    """Return the names by which the file knows a test runner or a part of one."""
    names = set(_RUNNERS)
    for node in program.root.named_children if program.root is not None else ():
        text = " ".join(text_of(node).split())
        found = re.match(r"from ([\w.]+) import (.+)$|import (.+)$", text)
        if node.type not in ("import_statement", "import_from_statement") or found is None:
            continue
        for name in (found[2] or found[3]).strip("()").split(","):
            origin, _, alias = name.strip().partition(" as ")
            if (found[1] or origin).split(".")[0] in _RUNNERS:
                names.add(alias.strip() or origin.split(".")[0].strip())
    return frozenset(names)


def _assigned(program: ChangedProgram, names: frozenset[str]) -> Iterator[Oddity]:
    for node in program.nodes("assignment", "augmented_assignment", "delete_statement"):
        left = text_of(node.child_by_field_name("left") or (node.named_children[0] if node.named_children else None))
        root = re.split(r"[.\[]", left)[0]
        if root in names and re.search(r"[.\[]", left):
            yield oddity_at(node, _PATCHED)
        elif _OUTCOMES.search(left) and (
            program.path.endswith("conftest.py") or re.match(r"(session|report|rep|result|item)\.", left)
        ):
            yield oddity_at(node, _OUTCOME)
        elif _HOOKS.match(left):
            yield oddity_at(node, _PATCHED)
        elif program.in_tests and _OWN.match(left):
            yield oddity_at(node, _STOOD_IN)


def _called(program: ChangedProgram, names: frozenset[str]) -> Iterator[Oddity]:
    for node in program.nodes("call"):
        name = text_of(node.child_by_field_name("function"))
        given = text_of(node.child_by_field_name("arguments"))
        first = re.split(r"[,.)\[]", given.lstrip("("))[0].strip()
        if program.in_tests and re.match(r"\(\s*(globals\(\)|sys\.modules\[__name__\])", given):
            yield oddity_at(node, _STOOD_IN)
        elif name.rpartition(".")[2] in ("setattr", "delattr", "patch", "object"):
            target = re.match(
                r"\(\s*['\"](_pytest|pytest|unittest\.(case|runner|main|result|TestCase)|pluggy)\b", given
            )
            if target or (first in names and name.rpartition(".")[2] != "patch" and first != "doctest"):
                yield oddity_at(node, _PATCHED)
        elif name in ("sys.settrace", "sys.setprofile", "sys.addaudithook") and not program.in_tests:
            yield oddity_at(node, _PATCHED, certain=False)


def _imported(program: ChangedProgram) -> Iterator[Oddity]:
    if program.in_tests and not program.path.endswith("conftest.py"):
        return
    for node in program.nodes("import_statement", "import_from_statement"):
        named = re.findall(r"(?:^from|^import|,)\s+([\w.]+)", " ".join(text_of(node).split()))
        roots = {name.split(".")[0] for name in named}
        if roots & _INSIDE:
            yield oddity_at(node, _IMPORTED, certain=not program.in_tests)
        elif roots & {"pytest", "unittest", "nose"} and not program.in_tests and not _is_for_tests(program):
            yield oddity_at(node, _IMPORTED, certain=False)


def _is_for_tests(program: ChangedProgram) -> bool:
    return re.search(r"testing|plugin|fixture|noxfile|tasks", program.path) is not None


def _always_equal(program: ChangedProgram) -> Iterator[Oddity]:
    for node in program.nodes("function_definition"):
        name = text_of(node.child_by_field_name("name"))
        body = " ".join(text_of(node.child_by_field_name("body")).split())
        answer = {"__eq__": "return True", "__ne__": "return False"}.get(name)
        if answer is not None and body.endswith(answer) and body.count("return") == 1 and "if " not in body:
            yield oddity_at(node, _EQUAL, certain=False)


_ROOTS = ("", "src/", "lib/", "python/", "tests/", "test/")
_TOOLS = name_set(
    "pytest _pytest pluggy xdist pytest_cov pytest_asyncio hypothesis nose coverage tox nox ruff mypy black isort "
    "flake8 "
    "pylint pyflakes pycodestyle bandit pyright basedpyright setuptools pip wheel build hatchling poetry uv attr attrs "
    "iniconfig packaging pkg_resources exceptiongroup sitecustomize usercustomize"
)
_HARMLESS = frozenset(["test", "this", "antigravity", "idlelib", "turtledemo", "__main__", "lib2to3", "__future__"])
_RUN_AT_START = re.compile(r"(sitecustomize|usercustomize)\.py|.*\.pth|.*\.egg-link|python\d*\._pth")
_INSTALLED = re.compile(
    r"(^|/)(node_modules|\.venv|venv|site-packages|dist-packages|__pypackages__|\.yarn/(cache|unplugged))/"
)
_METADATA = re.compile(r"\.(dist-info|egg-info)/(entry_points\.txt|METADATA|RECORD|top_level\.txt|PKG-INFO)$")


def find_disguise(subject: Subject, file: FileDiff) -> str | None:
    """Return why an added or changed file would be taken for something else, or None."""
    name = file.path.rpartition("/")[2]
    if file.status == "D":
        return None
    if _RUN_AT_START.fullmatch(name):
        return "Python runs this file whenever it starts"
    if file.status not in ("A", "R"):
        return None
    if _INSTALLED.search(file.path):
        return "installed packages do not belong to the sources"
    if _METADATA.search(file.path):
        return "this file makes Python believe that a package is installed, and may run code of it"
    if (other := _double(subject, file.path)) is not None:
        return f"the tests would import this file for {other}"
    module = _module(subject, file.path)
    if module in _TOOLS:
        return f"'{module}' is imported or run by the checks, and would now be this file"
    if module in sys.stdlib_module_names and module not in _HARMLESS:
        return f"'{module}' is part of Python, and would now be this file"
    return None


def _double(subject: Subject, path: str) -> str | None:
    """Return the same module under another root, if it exists before and after the change."""
    for root in _ROOTS:
        rest = path.removeprefix(root)
        if not path.startswith(root) or not re.fullmatch(r"(\w+/)+(?!__init__|conftest|test_)\w+\.py", rest):
            continue
        for other in _ROOTS:
            there = f"{other}{rest}"
            if there != path and there in subject.old_paths and there in subject.new_paths:
                return there
    return None


def _module(subject: Subject, path: str) -> str | None:
    """Return the name that imports this file. A new package is named by its `__init__.py` or `__main__.py`."""
    for root in _ROOTS:
        rest = path.removeprefix(root)
        if not path.startswith(root) or (root in ("tests/", "test/") and f"{root}__init__.py" in subject.new_paths):
            continue
        if re.fullmatch(r"\w+\.(py|pyi|so|pyd)|\w+\.cpython-.*\.so", rest):
            return rest.partition(".")[0]
        if re.fullmatch(r"\w+/(__init__|__main__)\.py", rest):
            return rest.partition("/")[0]
    return None
