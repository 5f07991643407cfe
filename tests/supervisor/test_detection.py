"""Checks proposed for a repository by its committed files; every proposal is a valid gate file."""

import json
from pathlib import Path

import pytest
from repositories import git, write

from forgepool.supervisor.detection.projects import detect
from forgepool.supervisor.detection.proposals import EXAMPLE, Detected, gate_file, read_committed
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.policy.gate_file.reading import read_gate_file
from forgepool.worktrees.git.git import CommitId, Git

Files = dict[str, str]

NPM_INIT = 'echo "Error: no test specified" && exit 1'


def package(scripts: dict[str, str], **said: object) -> str:
    return json.dumps({"name": "p", "scripts": scripts, **said})


def pyproject(*tables: str) -> str:
    return "\n".join(tables) + "\n"


LAYOUTS: dict[str, tuple[Files, dict[str, str]]] = {
    "pytest by a table": (
        {"pyproject.toml": "[tool.pytest.ini_options]\n", "tests/test_a.py": "def test_a(): pass\n"},
        {"test": "python3 -m pytest -q"},
    ),
    "pytest by pytest.ini": ({"pytest.ini": "[pytest]\n"}, {"test": "python3 -m pytest -q"}),
    "pytest by tox.ini": ({"tox.ini": "[pytest]\n"}, {"test": "python3 -m pytest -q"}),
    "pytest by what tests are": ({"tests/test_a.py": "def test_a():\n    pass\n"}, {"test": "python3 -m pytest -q"}),
    "pytest by conftest": (
        {"tests/conftest.py": "", "tests/test_a.py": "import unittest\n"},
        {"test": "python3 -m pytest -q"},
    ),
    "unittest": (
        {"tests/test_a.py": "import unittest\n"},
        {"test": "python3 -m unittest discover -s tests"},
    ),
    "unittest in a package": (
        {"tests/__init__.py": "", "tests/test_a.py": "from unittest import TestCase\n"},
        {"test": "python3 -m unittest discover -s tests -t ."},
    ),
    "django": (
        {"manage.py": "", "shop/tests.py": "from django.test import TestCase\n"},
        {"test": "python3 manage.py test"},
    ),
    "python tools by tables": (
        {"pyproject.toml": "[tool.ruff]\n[tool.mypy]\nfiles = ['src']\n"},
        {"lint": "ruff check", "types": "mypy"},
    ),
    "python tools by files": (
        {"ruff.toml": "", ".flake8": "[flake8]\n", "mypy.ini": "[mypy]\n"},
        {"ruff": "ruff check", "flake8": "flake8", "types": "mypy ."},
    ),
    "tools in setup.cfg": (
        {"setup.cfg": "[flake8]\nmax-line-length = 99\n[mypy]\n[tool:pytest]\n"},
        {"test": "python3 -m pytest -q", "lint": "flake8", "types": "mypy ."},
    ),
    "uv": (
        {
            "pyproject.toml": "[project]\nname = 'p'\n[project.optional-dependencies]\nqa = ['ruff']\n"
            "[dependency-groups]\ndev = ['pytest>=8']\n[tool.ruff]\n",
            "uv.lock": '[[package]]\nname = "ruff"\n',
            "tests/test_a.py": "import pytest\n",
        },
        {"test": ".venv/bin/python -m pytest -q", "lint": ".venv/bin/ruff check"},
    ),
    "poetry": (
        {
            "pyproject.toml": "[tool.poetry.dependencies]\npython='3'\n[tool.poetry.group.t.dependencies]\npytest='*'",
            "poetry.lock": "",
            "tests/test_a.py": "",
        },
        {"test": ".venv/bin/python -m pytest -q"},
    ),
    "requirements": (
        {"requirements.txt": "-r more.txt\nflask==3\n", "more.txt": "click\n", "tests/test_a.py": "import pytest\n"},
        {"test": ".venv/bin/python -m pytest -q"},
    ),
    "src without a path to it": (
        {
            "pyproject.toml": "[project]\nname = 'p'\n[tool.pytest.ini_options]\n",
            "src/p/__init__.py": "",
            "tests/test_a.py": "",
        },
        {"test": ".venv/bin/python -m pytest -q"},
    ),
    "npm": (
        {
            "package.json": package(
                {"test": "jest", "lint": "eslint .", "build": "tsc"}, devDependencies={"jest": "1"}
            ),
            "package-lock.json": "{}",
            ".gitignore": "/node_modules/\n",
        },
        {"test": "npm test", "lint": "npm run lint", "build": "npm run build"},
    ),
    "npm with placeholders": (
        {"package.json": package({"test": NPM_INIT, "lint": "eslint . || true", "build": "tsc"})},
        {"build": "npm run build"},
    ),
    "yarn": (
        {"package.json": package({"test": "jest"}, dependencies={"a": "1"}), "yarn.lock": ""},
        {"test": "yarn test"},
    ),
    "pnpm": (
        {"package.json": package({"test": "vitest run"}, devDependencies={"vitest": "1"}), "pnpm-lock.yaml": ""},
        {"test": "pnpm test"},
    ),
    "react": (
        {"package.json": package({"test": "react-scripts test"})},
        {"test": "CI=true npm test"},
    ),
    "make": (
        {"Makefile": ".PHONY: test lint\ntest: build\n\t@./run\n\nlint:\n\tshellcheck *.sh\nX := 1\nbuild:\n\tcc\n"},
        {"test": "make test", "lint": "make lint"},
    ),
    "make check": ({"Makefile": "check:\n\t./run\n"}, {"test": "make check"}),
    "make test and check": ({"Makefile": "check: test\ntest:\n\t./run\n"}, {"test": "make test"}),
    "make without commands": ({"Makefile": "test:\n\t@echo there are none\nlint:\n\t-flake8\ncheck:\n"}, {}),
    "cargo": (
        {"Cargo.toml": "[package]\nname = 'p'\n", "Cargo.lock": "version = 3\n"},
        {
            "build": "cargo build --locked",
            "test": "cargo test --locked",
            "lint": "cargo clippy --all-targets --locked -- -D warnings",
            "format": "cargo fmt --all --check",
        },
    ),
    "cargo with crates": (
        {"Cargo.toml": "[workspace]\nmembers = ['a']\n", "Cargo.lock": '[[package]]\nname = "x"\nsource = "r"\n'},
        {
            "build": 'CARGO_HOME="$PWD/.cargo-home" cargo build --workspace --locked --offline',
            "test": 'CARGO_HOME="$PWD/.cargo-home" cargo test --workspace --locked --offline',
            "lint": 'CARGO_HOME="$PWD/.cargo-home" cargo clippy --all-targets --workspace --locked --offline '
            "-- -D warnings",
            "format": "cargo fmt --all --check",
        },
    ),
    "cargo without a lock file": (
        {"Cargo.toml": "[package]\nname = 'p'\n[dependencies]\na = '1'\n"},
        {
            "build": 'CARGO_HOME="$PWD/.cargo-home" cargo build --offline',
            "test": 'CARGO_HOME="$PWD/.cargo-home" cargo test --offline',
            "lint": 'CARGO_HOME="$PWD/.cargo-home" cargo clippy --all-targets --offline -- -D warnings',
            "format": "cargo fmt --all --check",
        },
    ),
    "go": (
        {"go.mod": "module p\n\ngo 1.22\n"},
        {"build": "go build ./...", "lint": "go vet ./...", "test": "go test ./..."},
    ),
    "go with modules": (
        {"go.mod": "module p\n\nrequire a/b v1.0.0\n", "go.sum": "a/b v1.0.0 h1:x\n"},
        {
            "build": 'GOMODCACHE="$PWD/.gomodcache" go build ./...',
            "lint": 'GOMODCACHE="$PWD/.gomodcache" go vet ./...',
            "test": 'GOMODCACHE="$PWD/.gomodcache" go test ./...',
        },
    ),
    "go with vendored modules": (
        {"go.mod": "module p\n\nrequire a/b v1.0.0\n", "vendor/modules.txt": ""},
        {"build": "go build ./...", "lint": "go vet ./...", "test": "go test ./..."},
    ),
    "maven": ({"pom.xml": "<project/>", "mvnw": ""}, {"test": "./mvnw -B test"}),
    "gradle": ({"build.gradle.kts": "", "gradlew": ""}, {"test": "./gradlew --no-daemon check"}),
    "tox alone": ({"tox.ini": "[tox]\nenvlist = py311\n"}, {"test": "tox run"}),
    "nox alone": ({"noxfile.py": ""}, {"test": "nox"}),
    "two languages": (
        {
            "pytest.ini": "",
            "ruff.toml": "",
            "package.json": package({"test": "jest", "build": "tsc"}),
            "Makefile": "test:\n\tpytest\nlint:\n\truff check\n",
        },
        {"pytest": "python3 -m pytest -q", "npm-test": "npm test", "lint": "ruff check", "build": "npm run build"},
    ),
    "what breaks out of comments": (
        {
            "package.json": package({"test": 'node -e "1"\nchecks: none\n# \u2028\x1b[2J'}),
            "web\nversion: 2/package.json": "{}",
        },
        {"test": "npm test"},
    ),
    "broken manifests": (
        {"pyproject.toml": "[tool.", "package.json": "[" * 20_000, "Makefile": "test", "Cargo.lock": ""},
        {},
    ),
    "odd types in manifests": (
        {
            "pyproject.toml": "dependency-groups = 3\n[tool]\npoetry = 'x'\n[project]\ndependencies = 'a'\n",
            "package.json": '{"scripts": {"test": 3, "lint": ["a"]}, "dependencies": [], "packageManager": 1}',
        },
        {},
    ),
    "nothing": ({"README": "words\n"}, {}),
}


def found(folder: Path, files: Files) -> Detected:
    git(folder, "init", "-q", "-b", "main")
    write(folder, files)
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-q", "-m", "files")
    commit = CommitId(git(folder, "rev-parse", "HEAD"))
    return detect(read_committed(Git(git_dir=folder / ".git"), commit))


def read(detected: Detected) -> dict[str, CheckDefinition]:
    return {check.name: check for check in read_gate_file(gate_file(detected)).checks}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_is_proposed_these_checks_and_no_others(tmp_path: Path, layout: str) -> None:
    """The proposal can be read as a gate file with the same checks."""
    files, wanted = LAYOUTS[layout]
    detected = found(tmp_path, files)
    assert {one.name: one.run for one in detected.proposals} == wanted
    if not wanted:
        return
    checks = read(detected)
    assert {name: check.run for name, check in checks.items()} == wanted
    for one in detected.proposals:
        before, said = checks[one.name].needs, one.as_json()
        assert (before.run if before else None) == said["setup"]
        assert list(checks[one.name].network) == said["network"]
        assert [each.model_dump() for each in checks[one.name].cache] == said["cache"]
        assert list(checks[one.name].uses) == said["uses"]


def test_every_kept_folder_hangs_on_a_committed_file(tmp_path: Path) -> None:
    for number, (files, _) in enumerate(LAYOUTS.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        for one in found(folder, files).proposals:
            keys = {each.key for each in one.preparation.folders} if one.preparation else set()
            assert keys <= set(files), one


@pytest.mark.parametrize(
    ("layout", "check", "setup", "cache"),
    [
        ("uv", "test", "uv sync --frozen --extra qa --group dev", [(".venv", "uv.lock", False)]),
        (
            "poetry",
            "test",
            "POETRY_VIRTUALENVS_IN_PROJECT=true poetry install --no-interaction",
            [(".venv", "poetry.lock", False)],
        ),
        (
            "requirements",
            "test",
            "python3 -m venv .venv && .venv/bin/python -m pip install -q -r requirements.txt pytest",
            [(".venv", "requirements.txt", False), (".venv", "more.txt", False)],
        ),
        (
            "src without a path to it",
            "test",
            "python3 -m venv .venv && .venv/bin/python -m pip install -q -e . pytest",
            [(".venv", "pyproject.toml", False)],
        ),
        ("npm", "lint", "npm ci", [("node_modules", "package-lock.json", False)]),
        ("yarn", "test", "yarn install --frozen-lockfile", [("node_modules", "yarn.lock", False)]),
        ("pnpm", "test", "pnpm install --frozen-lockfile", [("node_modules", "pnpm-lock.yaml", True)]),
        (
            "cargo with crates",
            "test",
            'CARGO_HOME="$PWD/.cargo-home" cargo fetch --locked',
            [(".cargo-home", "Cargo.lock", True)],
        ),
        ("cargo without a lock file", "test", 'CARGO_HOME="$PWD/.cargo-home" cargo fetch', []),
        (
            "go with modules",
            "test",
            'GOMODCACHE="$PWD/.gomodcache" go mod download -modcacherw',
            [(".gomodcache", "go.sum", True)],
        ),
        ("go", "test", None, []),
        ("pytest by a table", "test", None, []),
    ],
)
def test_a_lock_file_says_the_set_up_and_what_it_is_kept_by(
    tmp_path: Path, layout: str, check: str, setup: str | None, cache: list[tuple[str, str, bool]]
) -> None:
    one = read(found(tmp_path, LAYOUTS[layout][0]))[check]
    assert one.setup == setup
    assert [(each.folder, each.key, each.writable) for each in one.cache] == cache


def test_a_lock_file_that_is_a_link_keeps_nothing(tmp_path: Path) -> None:
    """The link's target is not in the commit, and the gate would refuse the link as a key."""
    (tmp_path / "package-lock.json").symlink_to("/etc/hostname")
    files = {"package.json": package({"test": "jest"}, dependencies={"a": "1"})}
    (one,) = found(tmp_path, files).proposals
    assert one.preparation is not None
    assert (one.preparation.run, one.preparation.folders) == ("npm install", ())


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ("npm with placeholders", ("script 'test' does nothing but talk", "script 'lint' cannot fail")),
        ("make without commands", ("'test' does nothing but talk", "'lint' cannot fail", "'check' is empty")),
        ("make test and check", ("`make check` is there too",)),
        ("two languages", ("`make test` is there too", "`make lint` is there too")),
        ("yarn", ("node_modules is not named in .gitignore",)),
        ("what breaks out of comments", ("not at the top: web?version: 2/package.json",)),
    ],
)
def test_what_is_seen_and_left_out_is_told(tmp_path: Path, layout: str, words: tuple[str, ...]) -> None:
    notes = " ".join(found(tmp_path, LAYOUTS[layout][0]).notes)
    assert all(word in notes for word in words), notes


def test_a_folder_that_git_ignores_is_not_mentioned(tmp_path: Path) -> None:
    assert not any("gitignore" in note for note in found(tmp_path, LAYOUTS["npm"][0]).notes)


def test_each_check_says_by_which_file_it_is_proposed(tmp_path: Path) -> None:
    text = gate_file(found(tmp_path, LAYOUTS["npm"][0]))
    comments = [line for line in text.splitlines() if line.strip().startswith("#")]
    for script in ("test", "lint", "build"):
        assert any(f"package.json, script '{script}'" in line for line in comments)
    assert any("package-lock.json" in line for line in comments)


def test_what_lies_in_the_work_tree_alone_is_not_looked_at(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    write(tmp_path, {"pytest.ini": ""})
    commit = CommitId(git(tmp_path, "rev-parse", "HEAD"))
    assert not detect(read_committed(Git(git_dir=tmp_path / ".git"), commit)).proposals


def test_the_example_reads_as_a_gate_file() -> None:
    assert read_gate_file(EXAMPLE).checks[0].name == "test"
