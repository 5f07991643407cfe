"""The contents of a wheel, and tests that each ban on imports refuses a forbidden one."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from importlib.metadata import packages_distributions, requires, version
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = ("orchestrator", "supervisor", "workers", "worktrees")


def run(*argv: str, cwd: Path, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=cwd, input=stdin, env=os.environ | env, capture_output=True, text=True, check=False)


def test_every_package_that_exists_is_shipped() -> None:
    folders = {
        ".".join(("forgepool", *init.parent.relative_to(ROOT).parts))
        for top in PACKAGES
        for init in (ROOT / top).rglob("__init__.py")
    }
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == folders | {"forgepool.orchestrator.examples"}
    for folder in folders:
        place = ROOT / folder.removeprefix("forgepool.").replace(".", "/")
        assert (place / "__init__.py").read_text().lstrip().startswith('"""'), folder


def test_no_python_lies_outside_the_packages_that_are_shipped() -> None:
    shipped = {
        ROOT / name.removeprefix("forgepool.").replace(".", "/") for name in PROJECT["tool"]["setuptools"]["packages"]
    }
    written = {path.parent for top in PACKAGES for path in (ROOT / top).rglob("*.py")}
    assert written <= shipped


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    """
    Return the names in a wheel built from a copy. Building may need the network; a laptop without it skips the test.
    """
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    source.mkdir()
    for name in (*PACKAGES, "examples"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(place), str(source))
    built = run(*pip, cwd=place)
    if built.returncode != 0:
        assert os.environ.get("CI") != "true", built.stderr
        pytest.skip(f"no wheel can be built here: {built.stderr[-300:]}")
    assert "is absent from the `packages` configuration" not in built.stderr
    return frozenset(zipfile.ZipFile(next(place.glob("forgepool-*.whl"))).namelist())


@pytest.mark.slow
def test_the_wheel_holds_all_examples_dot_files_too(wheel: frozenset[str]) -> None:
    examples = {
        f"forgepool/orchestrator/examples/{path.relative_to(ROOT / 'examples').as_posix()}"
        for path in (ROOT / "examples").rglob("*")
        if path.is_file() and not {"__pycache__", ".ruff_cache", ".pytest_cache"} & set(path.parts)
    }
    assert "forgepool/orchestrator/examples/inventory/.gitignore" in examples
    assert examples <= wheel


@pytest.mark.slow
def test_the_wheel_holds_every_module_and_no_test(wheel: frozenset[str]) -> None:
    modules = {
        f"forgepool/{path.relative_to(ROOT).as_posix()}" for top in PACKAGES for path in (ROOT / top).rglob("*.py")
    }
    assets = list((ROOT / "orchestrator" / "interfaces" / "web" / "assets").glob("*/*"))
    workflows = list((ROOT / "workers" / "agents" / "builtin" / "workflows").iterdir())
    assert assets and workflows
    assets += workflows
    assert modules | {f"forgepool/{path.relative_to(ROOT).as_posix()}" for path in assets} <= wheel
    installed = {name.partition("/")[0] for name in wheel if "dist-info" not in name}
    assert installed == {"forgepool"}, "a generic name at the top would overwrite another distribution's package"
    assert {name.split("/")[1] for name in wheel if "dist-info" not in name} == set(PACKAGES)


def test_the_version_stands_in_pyproject_alone() -> None:
    said = PROJECT["project"]["version"]
    assert version("forgepool") == said
    files = [path for top in PACKAGES for path in (ROOT / top).rglob("*.py")]
    files += [ROOT / name for name in ("Makefile", "Dockerfile", "docker-compose.yml", "README.md")]
    assert not [path for path in files if f'"{said}"' in path.read_text() or "__version__" in path.read_text()]


def test_the_changelog_has_a_place_for_what_comes_next() -> None:
    assert "\n## [Unreleased]\n" in (ROOT / "CHANGELOG.md").read_text()


def banned(code: str, place: str) -> bool:
    """Return whether ruff, as configured here, refuses this code in this file because of a ban."""
    ruff = (sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format=concise", "--stdin-filename", place)
    said = run(*ruff, "-", cwd=ROOT, stdin=code)
    assert said.returncode in (0, 1), said.stderr
    return "TID251" in said.stdout


IMPORTS = [
    ("import git\n", "worktrees/git/git.py"),
    ("from git.cmd import Git\n", "worktrees/git/git.py"),
    ("import subprocess\n", "workers/sandbox/run/process.py"),
    ("from subprocess import run\n", "workers/sandbox/run/process.py"),
    ("import redis\n", "workers/queue/broker.py"),
    ("import celery\n", "workers/queue/broker.py"),
    ("import os\n\nprint(os.environ)\n", "workers/schema/settings.py"),
    ("import os\n\nprint(os.getenv('HOME'))\n", "workers/schema/settings.py"),
    ("from os import environ\n", "workers/schema/settings.py"),
]


@pytest.mark.parametrize(("code", "door"), IMPORTS)
def test_an_outside_thing_is_refused_everywhere_but_at_its_door(code: str, door: str) -> None:
    for package in PACKAGES:
        assert banned(code, f"{package}/made_up.py")
    assert not banned(code, door)


def test_no_module_talks_its_way_past_a_ban() -> None:
    excused = [path for top in PACKAGES for path in (ROOT / top).rglob("*.py") if "noqa: TID251" in path.read_text()]
    assert not excused


CONTRACTS = PROJECT["tool"]["importlinter"]["contracts"]


def imports_hold(place: Path, contract: Mapping[str, Any], importer: str, imported: str) -> bool:
    """Return whether one of our import contracts holds for small packages, one of which imports another."""
    for package in PACKAGES:
        (place / "forgepool" / package).mkdir(parents=True)
        (place / "forgepool" / package / "__init__.py").touch()
    inside = contract["containers"][0] + "." if "containers" in contract else ""
    for name in (inside + one for one in contract["layers"]):
        folder = place.joinpath(*name.split("."))
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").touch()
        (folder / "other.py").touch()
        (folder / "part.py").write_text(f"import {imported}.other\n" if name == importer else "")
    options = [f"{key} = {json.dumps(value)}" for key, value in contract.items()]
    roots = [f"forgepool.{package}" for package in PACKAGES]
    lines = ["[tool.importlinter]", f"root_packages = {json.dumps(roots)}", "[[tool.importlinter.contracts]]", *options]
    (place / "pyproject.toml").write_text("\n".join(lines))
    command = (str(Path(sys.executable).parent / "lint-imports"), "--no-cache")
    said = run(*command, cwd=place, PYTHONPATH=str(place))
    assert contract["name"] in said.stdout, said.stdout + said.stderr
    return said.returncode == 0


@pytest.mark.parametrize("contract", CONTRACTS, ids=[one["name"] for one in CONTRACTS])
def test_imports_run_downhill_only(tmp_path: Path, contract: Mapping[str, Any]) -> None:
    inside = contract["containers"][0] + "." if "containers" in contract else ""
    layers = [inside + one for one in contract["layers"]]
    for number, (high, low) in enumerate(pairwise((layers[0], *layers[-2:]))):
        assert imports_hold(tmp_path / f"down{number}", contract, high, low)
        assert not imports_hold(tmp_path / f"up{number}", contract, low, high)


def test_no_two_modules_that_tests_import_have_one_name() -> None:
    """Tests import helpers by their bare names, so the first of two would be imported for both."""
    tests = Path(__file__).parents[1]
    names = [path.name for path in tests.rglob("*.py") if not path.name.startswith(("test_", "conftest"))]
    assert sorted(names) == sorted(set(names))


_IMPORTED = """
import sys, importlib
for name in (
    "forgepool.orchestrator.cli", "forgepool.workers.order.entry", "forgepool.supervisor.entry",
    "forgepool.workers.llm.wires.anthropic", "forgepool.workers.llm.wires.openai_chat",
    "forgepool.orchestrator.interfaces.acp.agent", "forgepool.workers.agents.cli.acp", "acp",
    "forgepool.orchestrator.interfaces.watch.screens",
    "forgepool.orchestrator.interfaces.web.app", "jinja2", "starlette.applications", "uvicorn",
    "forgepool.workers.tools.mcp.servers", "forgepool.workers.tools.lsp.conversation",
    "kombu.transport.redis", "celery.bin.celery",
):
    importlib.import_module(name)
print("\\n".join(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def test_what_a_run_imports_is_declared_and_does_not_only_lie_there_for_developers() -> None:
    declared = {canonical(name) for name in required("forgepool[all]")}
    loaded = run(sys.executable, "-c", _IMPORTED, cwd=ROOT)
    assert loaded.returncode == 0, loaded.stderr
    of = packages_distributions()
    undeclared = {
        module: of[module]
        for module in loaded.stdout.split()
        if module in of and not {canonical(each) for each in of[module]} & declared
    }
    assert undeclared == {}


def canonical(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def required(name: str) -> set[str]:
    """Return all distributions that a plain installation of this one brings along on this platform."""
    found: set[str] = set()
    left = [Requirement(name)]
    while left:
        wanted = left.pop()
        key = canonical(wanted.name) + str(sorted(wanted.extras))
        if key in found:
            continue
        found |= {key, canonical(wanted.name)}
        for line in requires(wanted.name) or ():
            further = Requirement(line)
            wishes = [{"extra": extra} for extra in wanted.extras] or [{"extra": ""}]
            if further.marker is None or any(further.marker.evaluate(wish) for wish in wishes):
                left.append(further)
    return found
