"""
The paths that are tests, that tests depend on, or that decide how tests and checks run. Judged by path alone.

Scans learn from this list what a change touches. The gate learns what it must restore, as no change may decide it.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from forgepool.workers.policy.gate_file.document import CheckDefinition

Role = Literal["test", "support", "runner", "shared", "ci", "gate"]
"""
The part that a path plays for tests and the gate.

`test`: test code. `support`: what tests depend on, such as `conftest.py`, fixtures, snapshots. `runner`: settings of
test runners, linters and type checkers, and what runs them, such as a Makefile. `shared`: such settings in a file
that also holds others, such as `pyproject.toml`. `ci`: a pipeline elsewhere. `gate`: Forgepool's own settings.
"""

_GATE = r"forgepool\.ya?ml|\.forgepool(?:/.*)?"
_CI = (
    r"\.github/(?:workflows|actions)/.*|(?:.*/)?\.gitlab-ci\.ya?ml|\.gitlab/ci/.*|\.circleci/.*|\.buildkite/.*"
    r"|\.drone\.ya?ml|\.travis\.ya?ml|\.woodpecker(?:/.*|\.ya?ml)|azure-pipelines[\w.-]*\.ya?ml|\.azure-pipelines/.*"
    r"|bitbucket-pipelines\.ya?ml|(?:.*/)?Jenkinsfile(?:\.\w+)?|appveyor\.ya?ml|\.appveyor\.ya?ml|\.cirrus\.(?:yml|star)"
    r"|cloudbuild\.ya?ml|\.teamcity/.*|\.semaphore/.*|\.forgejo/workflows/.*|\.gitea/workflows/.*|codecov\.ya?ml"
    r"|\.codecov\.ya?ml|(?:.*/)?\.pre-commit-config\.ya?ml|lefthook\.ya?ml|\.husky/.*"
)
_SHARED = r"pyproject\.toml|setup\.cfg|package\.json|Cargo\.toml"
_RUNNER = (
    # Python
    r"\.?pytest\.(?:ini|toml)|tox\.(?:ini|toml)|noxfile\.py|\.coveragerc|\.?ruff\.toml|\.?mypy\.ini|\.flake8"
    r"|\.?pylintrc(?:\.toml)?|pyrightconfig\.json|\.bandit|\.isort\.cfg|(?:site|user)customize\.py|[^/]+\.pth"
    # JavaScript and TypeScript
    r"|(?:jest|vitest|karma|playwright|cypress|ava|wdio|nightwatch|stryker|babel|eslint|prettier|stylelint)"
    r"(?:[.-][\w-]+)?\.(?:config|conf)\.\w+|vitest\.workspace\.\w+|jest\.setup\.\w+|vitest\.setup\.\w+|setupTests\.\w+"
    r"|cypress\.json|\.mocharc(?:\.\w+)?|\.nycrc(?:\.\w+)?|\.c8rc(?:\.\w+)?|\.eslintrc(?:\.\w+)?|\.eslintignore"
    r"|\.prettierrc(?:\.\w+)?|\.prettierignore|\.stylelintrc(?:\.\w+)?|biome\.jsonc?|tsconfig(?:\.[\w-]+)?\.json"
    # Others
    r"|nextest\.toml|\.?clippy\.toml|\.?rustfmt\.toml|\.golangci\.(?:ya?ml|toml|json)|phpunit\.xml(?:\.dist)?"
    r"|phpstan\.neon(?:\.dist)?|\.rspec|\.rubocop\.ya?ml|checkstyle\.xml|junit-platform\.properties|\.runsettings"
    r"|GNUmakefile|[Mm]akefile|[Jj]ustfile|\.justfile|Taskfile\.ya?ml|Rakefile|CTestTestfile\.cmake"
)
_SUPPORT = (
    r"conftest\.py|[^/]+\.snap|[^/]+\.ambr|[^/]+\.approved\.\w+|testutils?\.\w+|test_?helpers?\.\w+|spec_helper\.rb"
    r"|rails_helper\.rb"
)
_TEST = (
    r"test_[^/]*\.py|[^/]*_tests?\.py|tests?\.py|[^/]+_test\.(?:go|c|cc|cpp|cxx|rb|exs|dart|ts|js|rs)"
    r"|[^/]+[.-](?:test|spec|e2e|cy)\.[cm]?[jt]sx?|[^/]+(?:Tests?|TestCase|[a-z]IT|Spec)\.(?:java|kts?|scala|groovy)"
    r"|Test[A-Z][^/]*\.(?:java|kt|scala)|[^/]+Tests?\.(?:cs|fs|vb|php|swift|m)|[^/]+_spec\.rb|[^/]+\.bats|[^/]+\.t"
)
_TEST_FOLDER = r"tests?|__tests__|e2e|integration[-_]tests?|unit[-_]tests?|acceptance[-_]tests?"
_SPEC_FOLDER = r"specs?|cypress"
_SUPPORT_FOLDER = r"fixtures|__fixtures__|testdata|test[-_]data|__snapshots__|__mocks__|cassettes|goldens?"
_CODE = (
    r"[^/]+\.(?:py|pyi|[cm]?[jt]sx?|go|rs|java|kts?|scala|groovy|rb|php|cs|fs|vb|swift|mm?|c|cc|cpp|cxx|hh?|hpp|exs?|dart"
    r"|sh|bash|bats|t|pl|lua|jl|hs|feature|robot)"
)

_WHOLE: tuple[tuple[Role, re.Pattern[str]], ...] = (("gate", re.compile(_GATE, re.IGNORECASE)), ("ci", re.compile(_CI)))
_NAMED: tuple[tuple[Role, re.Pattern[str]], ...] = (
    ("shared", re.compile(_SHARED)),
    ("support", re.compile(_SUPPORT)),
    ("runner", re.compile(_RUNNER)),
    ("test", re.compile(_TEST)),
)
_TEST_FOLDERS = re.compile(_TEST_FOLDER, re.IGNORECASE)
_SPEC_FOLDERS = re.compile(_SPEC_FOLDER, re.IGNORECASE)
_SUPPORT_FOLDERS = re.compile(_SUPPORT_FOLDER, re.IGNORECASE)
_CODE_NAME = re.compile(_CODE, re.IGNORECASE)
_SCRIPT = re.compile(r"(?:.*/)?(?:(?:scripts?|tools?|ci|\.ci|dev|hack|build|etc)/.*|[^/]+\.(?:sh|bash|bat|ps1|mk))")
_WORD = re.compile(r"[\w./@+-]+")


@lru_cache(maxsize=65536)
def role(path: str) -> Role | None:
    """Return the role of a path, or None for all other paths."""
    *folders, name = path.split("/")
    for role_, pattern in _WHOLE:
        if pattern.fullmatch(path):
            return role_
    for role_, pattern in _NAMED:
        if pattern.fullmatch(name):
            return role_
    return _by_folder(folders, name)


def is_test_path(path: str) -> bool:
    """Tell whether a path is a test, or tests depend on it."""
    return role(path) in ("test", "support")


def is_gate_path(path: str) -> bool:
    """Tell whether a path decides how tests and checks run, here or in a pipeline elsewhere."""
    return role(path) in ("runner", "shared", "ci", "gate")


def scripts_of(checks: Sequence[CheckDefinition]) -> frozenset[str]:
    """
    Return the paths of the scripts that checks name in their commands.

    A check may run the product itself (`python main.py --version`), which the entry is free to change. So only files
    that are scripts by folder or suffix count.
    """
    words = (word for check in checks for said in (check.run, check.setup or "") for word in _WORD.findall(said))
    return frozenset(path for word in words if _SCRIPT.fullmatch(path := word.removeprefix("./")))


def _by_folder(folders: Sequence[str], name: str) -> Role | None:
    is_code = _CODE_NAME.fullmatch(name) is not None
    if any(_SUPPORT_FOLDERS.fullmatch(folder) for folder in folders):
        return "support"
    if any(_TEST_FOLDERS.fullmatch(folder) for folder in folders):
        return "test" if is_code else "support"
    return "test" if is_code and any(_SPEC_FOLDERS.fullmatch(folder) for folder in folders) else None
