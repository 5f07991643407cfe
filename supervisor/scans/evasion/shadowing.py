"""Files that are taken for something else by where they lie: a tool, the standard library, what is installed."""

import re
import sys

from forgepool.supervisor.scans.languages.suite import name_set
from forgepool.supervisor.scans.subject import Subject
from forgepool.worktrees.commits.diff import FileDiff

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


def impostor(subject: Subject, file: FileDiff) -> str | None:
    """What a file that was added or changed would be taken for; None for what is just itself."""
    name = file.path.rpartition("/")[2]
    if file.status == "D":
        return None
    if _RUN_AT_START.fullmatch(name):
        return "Python runs this file whenever it starts"
    if file.status not in ("A", "R"):
        return None
    if _INSTALLED.search(file.path):
        return "what is installed is no part of the sources, and could be anything"
    if _METADATA.search(file.path):
        return "by this file a package says that it is installed, and what of it runs by itself"
    if (other := _double(subject, file.path)) is not None:
        return f"the tests would import this file for {other}"
    module = _module(subject, file.path)
    if module in _TOOLS:
        return f"'{module}' is imported or run by the checks, and would now be this file"
    if module in sys.stdlib_module_names and module not in _HARMLESS:
        return f"'{module}' is part of Python, and would now be this file"
    return None


def _double(subject: Subject, path: str) -> str | None:
    """The module of a package that is there under another root already, and stays there."""
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
    """The name by which the file, or the package that it makes, is imported; of a new package, by its `__init__.py`."""
    for root in _ROOTS:
        rest = path.removeprefix(root)
        if not path.startswith(root) or (root in ("tests/", "test/") and f"{root}__init__.py" in subject.new_paths):
            continue
        if re.fullmatch(r"\w+\.(py|pyi|so|pyd)|\w+\.cpython-.*\.so", rest):
            return rest.partition(".")[0]
        if re.fullmatch(r"\w+/(__init__|__main__)\.py", rest):
            return rest.partition("/")[0]
    return None
