"""Which paths are tests, and which decide how tests are run."""

import pytest
from gates import check

from forgepool.workers.policy.gate_file.test_paths import is_gate_path, is_test_path, role, scripts_of

ROLES = {
    "test": (
        "tests/test_a.py tests/unit/a.py a/b_test.go a.test.tsx src/a.spec.mjs src/test/java/com/AcmeTest.java "
        "src/main/java/LatestIT.java Tests/Sums.cs spec/a_spec.rb app/tests.py test/a.bats e2e/login.ts tests/run.sh "
        "SumsTests.swift crates/a/tests/it.rs tests/__init__.py"
    ),
    "support": (
        "conftest.py tests/conftest.py tests/data.json app/fixtures/a.json pkg/testdata/x src/__snapshots__/a.snap "
        "src/__mocks__/fs.js tests/cassettes/a.yaml spec/spec_helper.rb"
    ),
    "runner": (
        "pytest.ini sub/tox.ini Makefile GNUmakefile jest.config.js vitest.config.ts .mocharc.yml ruff.toml .flake8 "
        "mypy.ini eslint.config.mjs .eslintrc.json tsconfig.json .golangci.yml sitecustomize.py src/evil.pth justfile "
        "tests/pytest.ini .config/nextest.toml"
    ),
    "shared": "pyproject.toml setup.cfg package.json Cargo.toml sub/package.json",
    "ci": ".github/workflows/ci.yml .gitlab-ci.yml Jenkinsfile .circleci/config.yml .pre-commit-config.yaml",
    "gate": "forgepool.yaml .forgepool/policy.yaml .forgepool FORGEPOOL.yaml",
    None: (
        "src/a.py contest.py attest.py latest.py docs/test.md spec/openapi.yaml src/features/a.tsx vite.config.ts "
        "src/main/java/EDIT.java src/main/java/Latest.java README.md requirements.txt testing.md src/contested/a.py "
        "protest/a.py sub/forgepool.yaml"
    ),
}


@pytest.mark.parametrize(
    ("path", "wanted"), [(path, wanted) for wanted, paths in ROLES.items() for path in paths.split()]
)
def test_the_role_of_a_path_follows_from_its_names_alone(path: str, wanted: str | None) -> None:
    assert role(path) == wanted
    assert is_test_path(path) is (wanted in ("test", "support"))
    assert is_gate_path(path) is (wanted in ("runner", "shared", "ci", "gate"))


def test_only_a_script_of_the_gate_is_taken_for_one() -> None:
    """A file in a check's command is a script of the gate only if its place or its name says so."""
    checks = [check("./ci/run --fast && bash tools/lint.sh"), check("python main.py --version", setup="sh prepare.sh")]
    assert scripts_of(checks) == {"ci/run", "tools/lint.sh", "prepare.sh"}
