"""
Detect the checks of a Python project, and the environment that they need.

Configuration counts first, declared dependencies next, the imports of test files last. No tool is proposed because it
is popular.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from forgepool.supervisor.detection.proposals import CheckProposal, CommittedFiles, Folder, Preparation

_INDEX = ("pypi.org", "files.pythonhosted.org")
_REQUIREMENTS = (
    *("requirements.txt", "requirements-dev.txt", "requirements-test.txt", "requirements_dev.txt"),
    *("requirements_test.txt", "dev-requirements.txt", "test-requirements.txt", "requirements/base.txt"),
    *("requirements/dev.txt", "requirements/test.txt", "requirements/tests.txt"),
)
_INCLUDED = re.compile(r"^(?:-r|-c|--requirement|--constraint)[ =]?\s*(\S+)", re.MULTILINE)
_DECLARED = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)", re.MULTILINE)
_TEST_FILE = re.compile(r"(?:.*/)?(?:test_[^/]*|[^/]*_test|tests)\.py")
_TARGETS = re.compile(r"^\s*(?:files|packages|modules)\s*=", re.MULTILINE)
_EXTRAS = ("test", "tests", "testing", "dev", "lint")
_RUN_INSIDE = ("pytest", "mypy")
"""Tools that import the project, and so must be installed beside its dependencies."""
_MOST_READ = 40


@dataclass(frozen=True)
class PythonProject:
    """A Python project, as its committed files describe it."""

    files: CommittedFiles

    @cached_property
    def project(self) -> dict[str, Any]:
        try:
            return tomllib.loads(self.files.text("pyproject.toml"))
        except tomllib.TOMLDecodeError:
            return {}

    @cached_property
    def groups(self) -> dict[tuple[str, str], frozenset[str]]:
        """
        Names of distributions in lower case, by the kind and name of their group.

        `("", "")` holds the ones that are always installed.
        """
        project, poetry = self.table("project"), self.table("tool", "poetry")
        always = (*_names(project.get("dependencies")), *_dict(poetry, "dependencies"))
        required = tuple(name for path in self.requirements for name in _DECLARED.findall(self.files.text(path)))
        found: dict[tuple[str, str], Iterable[str]] = {("", ""): (*always, *required)}
        for name, each in _dict(project, "optional-dependencies").items():
            found["extra", name] = _names(each)
        for name, each in _dict(self.project, "dependency-groups").items():
            found["group", name] = _names(each)
        found["poetry", "dev"] = _dict(poetry, "dev-dependencies")
        for name, each in _dict(poetry, "group").items():
            found["poetry", name] = _dict(each, "dependencies")
        return {where: frozenset(name.lower() for name in names) - {"python"} for where, names in found.items()}

    @property
    def requirements(self) -> tuple[str, ...]:
        return tuple(path for path in _REQUIREMENTS if path in self.files.paths)

    @property
    def installable(self) -> bool:
        return "setup.py" in self.files.paths or bool({"build-system", "project"} & set(self.project))

    @cached_property
    def tests(self) -> tuple[str, ...]:
        """Its test files, those nearest to the top first."""
        found = [path for path in self.files.paths if _TEST_FILE.fullmatch(path)]
        return tuple(sorted(found, key=lambda path: (path.count("/"), path)))

    def table(self, *keys: str) -> dict[str, Any]:
        found = self.project
        for key in keys:
            found = _dict(found, key)
        return found

    def declares(self, tool: str) -> bool:
        return any(tool in names for names in self.groups.values())

    def section(self, path: str, name: str) -> bool:
        return re.search(rf"^\[{re.escape(name)}\]", self.files.text(path), re.MULTILINE) is not None


def python_checks(files: CommittedFiles) -> Iterator[CheckProposal]:
    """Yield the checks of the Python project at the top of the tree, if there is one."""
    here = PythonProject(files)
    tools = (("pytest", pytest_by(here)), ("ruff", ruff_by(here)), ("flake8", flake8_by(here)), ("mypy", mypy_by(here)))
    wanted = [(tool, why) for tool, why in tools if why is not None]
    made = environment(here, [tool for tool, _ in wanted])
    for tool, why in wanted:
        yield _proposal(here, tool, why, made)
    if not any(tool == "pytest" for tool, _ in wanted) and (tests := unittest_by(here)):
        yield _unittest(here, tests, made)


def pytest_by(here: PythonProject) -> str | None:
    """Return the file or setting that shows the use of pytest, or None."""
    if named := here.files.first("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"):
        return named
    if "pytest" in here.table("tool"):
        return "pyproject.toml, table [tool.pytest]"
    for path, section in (("tox.ini", "pytest"), ("setup.cfg", "tool:pytest")):
        if here.section(path, section):
            return f"{path}, section [{section}]"
    if not here.tests:
        return None
    if here.declares("pytest"):
        return f"a declared dependency, and {here.tests[0]}"
    if conftest := next((path for path in sorted(here.files.paths) if PurePosixPath(path).name == "conftest.py"), None):
        return conftest
    own = re.compile(r"^(?:import pytest|from pytest|(?:async )?def test_)", re.MULTILINE)
    return next((path for path in here.tests[:_MOST_READ] if own.search(here.files.text(path))), None)


def unittest_by(here: PythonProject) -> str | None:
    own = re.compile(r"^\s*(?:import unittest|from unittest|from django.test)", re.MULTILINE)
    named = (path for path in here.tests[:_MOST_READ] if PurePosixPath(path).name.startswith("test"))
    return next((path for path in named if own.search(here.files.text(path))), None)


def ruff_by(here: PythonProject) -> str | None:
    if named := here.files.first("ruff.toml", ".ruff.toml"):
        return named
    return "pyproject.toml, table [tool.ruff]" if "ruff" in here.table("tool") else None


def flake8_by(here: PythonProject) -> str | None:
    if ".flake8" in here.files.paths:
        return ".flake8"
    paths = (path for path in ("setup.cfg", "tox.ini") if here.section(path, "flake8"))
    return next((f"{path}, section [flake8]" for path in paths), None)


def mypy_by(here: PythonProject) -> str | None:
    if named := here.files.first("mypy.ini", ".mypy.ini"):
        return named
    if "mypy" in here.table("tool"):
        return "pyproject.toml, table [tool.mypy]"
    return "setup.cfg, section [mypy]" if here.section("setup.cfg", "mypy") else None


def environment(here: PythonProject, tools: Sequence[str]) -> Preparation | None:
    """Return the set-up of `.venv` that the project's files ask for, or None if they ask for nothing."""
    chosen = _chosen(here, tools)
    if "uv.lock" in here.files.paths:
        return Preparation(
            run=" ".join(["uv sync --frozen", *(f"--{kind} {name}" for kind, name in chosen)]),
            why="the environment by uv.lock; uv must be on the PATH",
            folders=(Folder(folder=".venv", key="uv.lock"),),
            network=_INDEX,
        )
    if "poetry.lock" in here.files.paths:
        return Preparation(
            run="POETRY_VIRTUALENVS_IN_PROJECT=true poetry install --no-interaction",
            why="the environment by poetry.lock; poetry must be on the PATH",
            folders=(Folder(folder=".venv", key="poetry.lock"),),
            network=_INDEX,
        )
    if not any(here.groups.values()) and not _needs_itself_installed(here):
        return None
    return _by_pip(here, tools, chosen)


def _by_pip(here: PythonProject, tools: Sequence[str], chosen: Sequence[tuple[str, str]]) -> Preparation:
    """Return a set-up with pip. Without a lock file, it is cached by the files that name the requirements."""
    keys = tuple(dict.fromkeys(_asking(here)))
    extras = ",".join(name for kind, name in chosen if kind == "extra")
    groups = [f"--group {name}" for kind, name in chosen if kind == "group"]
    words = [f"-r {path}" for path in here.requirements]
    if here.installable:
        words.append(f"-e '.[{extras}]'" if extras else "-e .")
    brought = here.groups["", ""].union(*(here.groups[where] for where in chosen))
    words += [*groups, *(tool for tool in tools if tool in _RUN_INSIDE and tool not in brought)]
    pip = ".venv/bin/python -m pip install -q"
    newer = f"{pip} -U 'pip>=25.1' && " if groups else ""
    return Preparation(
        run=f"python3 -m venv .venv && {newer}{pip} {' '.join(words)}",
        why=f"the environment by {' and '.join(keys)}; a lock file would say which versions exactly",
        folders=tuple(Folder(folder=".venv", key=key) for key in keys),
        network=_INDEX,
    )


def _chosen(here: PythonProject, tools: Sequence[str]) -> list[tuple[str, str]]:
    """Return the extras and groups to install: those with a needed tool, and those named after tests."""
    return [
        (kind, name)
        for (kind, name), names in here.groups.items()
        if kind in ("extra", "group")
        and re.fullmatch(r"[A-Za-z0-9._-]+", name)
        and (name in _EXTRAS or any(tool in names for tool in tools))
    ]


def _proposal(here: PythonProject, tool: str, why: str, made: Preparation | None) -> CheckProposal:
    reason = f"{tool}: by {why}"
    match tool:
        case "pytest":
            run = ".venv/bin/python -m pytest -q" if made else "python3 -m pytest -q"
            return CheckProposal(role="test", tool=tool, run=run, why=reason, preparation=made)
        case "mypy":
            run = (".venv/bin/" if made else "") + ("mypy" if _has_targets(here) else "mypy .")
            return CheckProposal(role="types", tool=tool, run=run, why=reason, preparation=made)
        case _:
            return _lint(here, tool, reason, made)


def _lint(here: PythonProject, tool: str, why: str, made: Preparation | None) -> CheckProposal:
    """Propose a linter, from the environment if that has it. Otherwise it needs no installation of the project."""
    run = "ruff check" if tool == "ruff" else "flake8"
    if made and _brings(here, tool):
        run = f".venv/bin/{run}" + (" --extend-exclude .venv" if tool == "flake8" else "")
        return CheckProposal(role="lint", tool=tool, run=run, why=why, preparation=made)
    return CheckProposal(role="lint", tool=tool, run=run, why=f"{why}; it must be on the PATH")


def _unittest(here: PythonProject, why: str, made: Preparation | None) -> CheckProposal:
    python = ".venv/bin/python" if made else "python3"
    top = PurePosixPath(why).parts[0]
    package = f"{top}/__init__.py" in here.files.paths
    where = f" -s {top}{' -t .' if package else ''}" if top in ("tests", "test") else ""
    django = "manage.py" in here.files.paths
    return CheckProposal(
        role="test",
        tool="unittest",
        run=f"{python} manage.py test" if django else f"{python} -m unittest discover{where}",
        why=f"unittest: by {why}",
        preparation=made,
    )


def _asking(here: PythonProject) -> Iterator[str]:
    """Yield the committed files that name what is installed. Requirements files may include others."""
    for path in here.requirements:
        yield path
        for other in _INCLUDED.findall(here.files.text(path)):
            beside = str(PurePosixPath(path).parent / other)
            if beside in here.files.paths:
                yield beside
    if here.installable or not here.requirements:
        yield from (path for path in ("pyproject.toml", "setup.py", "setup.cfg") if path in here.files.paths)


def _needs_itself_installed(here: PythonProject) -> bool:
    """Tell whether tests import the project, and only an installation makes that possible."""
    options = here.table("tool", "pytest", "ini_options")
    below_src = any(path.startswith("src/") and path.endswith(".py") for path in here.files.paths)
    return here.installable and below_src and "pythonpath" not in options


def _brings(here: PythonProject, tool: str) -> bool:
    locked = here.files.first("uv.lock", "poetry.lock")
    if locked is None:
        return here.declares(tool)
    return re.search(rf'^name = "{re.escape(tool)}"$', here.files.text(locked), re.MULTILINE) is not None


def _has_targets(here: PythonProject) -> bool:
    if {"files", "packages", "modules"} & set(here.table("tool", "mypy")):
        return True
    return any(_TARGETS.search(here.files.text(path)) for path in ("mypy.ini", ".mypy.ini"))


def _names(declared: object) -> tuple[str, ...]:
    """Return the distributions in a list of requirements, without versions and markers."""
    lines = [each for each in declared if isinstance(each, str)] if isinstance(declared, list) else []
    return tuple(found[0].strip() for each in lines if (found := re.match(r"\s*[A-Za-z0-9][A-Za-z0-9._-]*", each)))


def _dict(table: object, key: str) -> dict[str, Any]:
    found = table.get(key) if isinstance(table, dict) else None
    return found if isinstance(found, dict) else {}
