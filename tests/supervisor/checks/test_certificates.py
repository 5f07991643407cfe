"""A certificate holds only for a check as defined, with the checks it uses, on the files it depends on."""

from itertools import count

import pytest
from gates import Gate, check

from forgepool.supervisor.checks.certificates import Inputs, certify, definition_digest, environment, unproven
from forgepool.supervisor.messages.answers import Certificate
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.worktrees.commits.compose import tree_of
from forgepool.worktrees.git.git import CommitId, TreeId

PYTHON = check("make test", "test", paths=("src", "tests"))
DOCS = check("make docs", "docs", paths=("docs",))
WHOLE = check("make lint", "lint")
_NUMBERS = count()
FILES = {"src/a.py": "1\n", "docs/a.md": "1\n", "Makefile": "test:\n"}


def tip(gate: Gate) -> TreeId:
    mirror = gate.mirror
    mirror.ensure(gate.hub.tip())
    return tree_of(mirror.git, gate.hub.tip())


def inputs(gate: Gate, check: CheckDefinition, *others: CheckDefinition, **files: str | None) -> str:
    """Return what the check depends on after these files are changed."""
    entry = gate.entry(
        f"any{next(_NUMBERS)}", {name.replace("__", "/").replace("_", "."): text for name, text in files.items()}
    )
    mirror = gate.mirror
    mirror.ensure(CommitId(entry.commit), refs=(entry.ref,))
    return Inputs(git=mirror.git, tree=tree_of(mirror.git, CommitId(entry.commit)), checks=(check, *others)).of(check)


@pytest.fixture
def based(gate: Gate) -> Gate:
    gate.hub.commit(FILES)
    return gate


def test_a_check_that_says_nothing_depends_on_the_whole_tree(based: Gate) -> None:
    assert inputs(based, WHOLE) == tip(based)
    assert inputs(based, WHOLE, docs__a_md="2\n") != tip(based)


def test_what_lies_in_no_path_of_a_check_that_names_its_own_does_not_count(based: Gate) -> None:
    before = inputs(based, PYTHON, DOCS)
    assert inputs(based, PYTHON, DOCS, docs__a_md="2\n") == before
    assert inputs(based, PYTHON, DOCS, docs__b_md="new\n") == before


@pytest.mark.parametrize("files", [{"src__a_py": "2\n"}, {"src__b_py": "new\n"}, {"src__a_py": None}])
def test_what_lies_in_its_paths_counts(based: Gate, files: dict[str, str | None]) -> None:
    assert inputs(based, PYTHON, DOCS, **files) != inputs(based, PYTHON, DOCS)


@pytest.mark.parametrize("files", [{"Makefile": "test: ; false\n"}, {"conftest_py": "import os\n"}])
def test_what_no_check_thought_of_counts_for_all(based: Gate, files: dict[str, str]) -> None:
    assert inputs(based, PYTHON, DOCS, **files) != inputs(based, PYTHON, DOCS)
    assert inputs(based, DOCS, PYTHON, **files) != inputs(based, DOCS, PYTHON)


def test_without_anybody_to_whom_it_belongs_the_same_path_counts(based: Gate) -> None:
    """The other check, whose `paths` covered it, is absent."""
    assert inputs(based, PYTHON, docs__a_md="2\n") != inputs(based, PYTHON)


def test_what_a_used_check_depends_on_counts_for_what_uses_it(based: Gate) -> None:
    uses = check("make pages", "pages", paths=("docs",), uses=("test",))
    assert inputs(based, uses, PYTHON, src__a_py="2\n") != inputs(based, uses, PYTHON)
    of_all = check("make pages", "pages", paths=("docs",), uses=("lint",))
    assert inputs(based, of_all, WHOLE) == tip(based)


def test_a_definition_is_what_it_says_and_what_those_it_uses_say() -> None:
    build, test = check("make", "build"), check("make test", "test", uses=("build",))
    other = check("make all", "build")
    assert definition_digest(test, (build, test)) != definition_digest(test, (other, test))
    assert definition_digest(test, (build, test)) != definition_digest(check("make test", "test"), (build,))
    dear = build.model_copy(update={"cost_s": 3600.0})
    assert definition_digest(dear, (dear,)) == definition_digest(build, (build,)), "what it costs changes nothing"


def test_what_holds_the_commands_belongs_to_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    held = environment("bubblewrap")
    assert environment("landlock") != held
    monkeypatch.setenv("PATH", "/elsewhere")
    assert environment("bubblewrap") != held


def earned(check: CheckDefinition, checks: tuple[CheckDefinition, ...], inputs: str) -> Certificate:
    return certify(check, checks, inputs=inputs, environment="here", seconds=1.0, host="here")


def test_a_tree_is_proven_by_a_certificate_of_each_check_for_its_own_inputs(based: Gate) -> None:
    checks = (PYTHON, DOCS, WHOLE)
    of = Inputs(git=based.mirror.git, tree=tip(based), checks=checks)
    certificates = [earned(one, checks, of.of(one)) for one in checks]
    assert unproven(checks, of, certificates) == ()
    assert unproven(checks, of, certificates[1:]) == ("test",)
    assert unproven((PYTHON,), Inputs(git=of.git, tree=of.tree, checks=(PYTHON,)), certificates) == ("test",)


def test_a_certificate_for_other_inputs_of_the_same_check_proves_nothing(based: Gate) -> None:
    checks = (PYTHON, DOCS)
    of = Inputs(git=based.mirror.git, tree=tip(based), checks=checks)
    certificates = [earned(PYTHON, checks, of.of(DOCS)), earned(DOCS, checks, of.of(PYTHON))]
    assert unproven(checks, of, certificates) == ("test", "docs")
