"""`forgepool init` as a person types it, and `forgepool --version`."""

import json
import sys
import tomllib
from pathlib import Path

import pytest
from people import ROOT, Person, person_in
from terminal import on_terminal

from forgepool.workers.policy.gate_file.reading import read_gate_file

FILES = {"pytest.ini": "[pytest]\n", "ruff.toml": "", "tests/test_a.py": "def test_a(): pass\n"}


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return person_in(tmp_path, FILES)


def test_a_proposal_is_printed_and_nothing_is_written(person: Person) -> None:
    before = person.everything()
    said = person.forgepool("init")
    assert said.status == 0
    assert [check.name for check in read_gate_file(said.out).checks] == ["test", "lint"]
    assert "nothing was written" in said.err
    assert person.everything() == before


def test_write_puts_the_proposal_into_the_work_tree_and_commits_nothing(person: Person) -> None:
    (person.folder / "tests" / "deeper").mkdir()
    head = person.git("rev-parse", "HEAD")
    printed = person.forgepool("init").out
    said = person.forgepool("init", "--write", cwd=person.folder / "tests" / "deeper")
    assert (said.status, said.out) == (0, "")
    line, _, rest = (person.folder / "forgepool.yaml").read_text().partition("\n")
    assert line == "# yaml-language-server: $schema=.forgepool/forgepool.schema.json" and rest == printed
    schema = json.loads((person.folder / ".forgepool" / "forgepool.schema.json").read_text())
    assert schema["title"] == "Forgepool: forgepool"
    assert "2 checks, and .forgepool/forgepool.schema.json, by which editors check it; read and" in said.err
    assert person.git("rev-parse", "HEAD") == head
    assert person.git("status", "--porcelain") == "?? .forgepool/\n?? forgepool.yaml"


@pytest.mark.parametrize("there", ["a file", "a link", "a link to nothing"])
def test_write_leaves_what_is_there_as_it_is(person: Person, there: str) -> None:
    path, elsewhere = person.folder / "forgepool.yaml", person.folder.parent / "elsewhere"
    if there == "a file":
        path.write_text("mine\n")
    else:
        path.symlink_to(elsewhere)
    if there == "a link":
        elsewhere.write_text("mine\n")
    before = person.everything()
    said = person.forgepool("init", "--write")
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1)
    assert "already exists and was not changed" in said.err
    assert person.everything() == before
    assert elsewhere.exists() == (there == "a link")


def test_a_terminal_is_told_what_takes_long_and_a_pipe_is_not(person: Person) -> None:
    person.write({"forgepool.yaml": "version: 1\nchecks:\n  slow: sleep 2.3\n"})
    command = [sys.executable, "-m", "forgepool.orchestrator.cli", "init", "--try"]
    assert "forgepool: running the checks on HEAD ..." in on_terminal(command, cwd=person.folder, env=person.env)
    assert "running the checks" not in person.forgepool("init", "--try").err


def test_what_is_not_committed_is_not_looked_at(person: Person) -> None:
    person.write({"mypy.ini": "[mypy]\n"})
    assert "mypy" not in person.forgepool("init").out


def test_it_is_the_head_of_this_worktree_that_is_looked_at(person: Person) -> None:
    other = Person(person.folder.parent / "other")
    person.git("worktree", "add", "-q", "-b", "other", str(other.folder))
    other.commit({"mypy.ini": "[mypy]\n"})
    assert "run: mypy ." in other.forgepool("init").out
    assert "mypy" not in person.forgepool("init").out


def test_a_repository_that_has_a_gate_file_is_told_that_only_that_counts(person: Person) -> None:
    person.commit({"forgepool.yaml": "version: 1\nchecks: {a: 'true'}\n"})
    said = person.forgepool("init")
    assert said.status == 0 and "already has a forgepool.yaml, which stays in force" in said.err


def test_one_that_is_not_committed_yet_is_there_already(person: Person) -> None:
    assert person.forgepool("init", "--write").status == 0
    said = person.forgepool("init").err
    assert "there already is a forgepool.yaml, in force once it is committed" in said and "--write" not in said


def test_where_nothing_is_found_an_example_is_given_and_nothing_is_written(tmp_path: Path) -> None:
    person = person_in(tmp_path, {"README": "words\n"})
    said = person.forgepool("init", "--write")
    assert said.status == 1
    assert read_gate_file(said.out).checks
    assert "no checks were found at the top of this repository" in said.err
    assert not (person.folder / "forgepool.yaml").exists()


@pytest.mark.parametrize("more", [{}, FILES], ids=["nothing proposed", "a proposal"])
def test_a_gate_file_of_your_own_is_tried_and_nothing_is_proposed(tmp_path: Path, more: dict[str, str]) -> None:
    own = "version: 1\nchecks:\n  read: test -f README\n"
    person = person_in(tmp_path, {"README": "words\n", "forgepool.yaml": own, **more})
    said = person.forgepool("init", "--try")
    assert said.status == 0, said.err
    assert said.out.startswith("check 'read' is green") and "the checks of forgepool.yaml are run" in said.err


def test_all_that_keeps_checks_from_running_is_told_at_once(tmp_path: Path) -> None:
    own = "version: 1\nchecks:\n  a: no-such-tool\n"
    own += "  b: {run: test -f README, network: ['a.example.org:8443', b.example.org]}\n"
    person = person_in(tmp_path, {"README": "words\n", "forgepool.yaml": own})
    said = person.forgepool("init", "--try")
    assert (said.status, said.out) == (2, "")
    assert "no check was run: check 'a' runs 'no-such-tool'" in said.err and "check 'b' wants the hosts" in said.err
    path, rules = said.err.partition("write this into ")[2].split(":\n", 1)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(rules)
    person.commit({"forgepool.yaml": own.replace("no-such-tool", "test -f README")})
    assert person.forgepool("init", "--try").status == 0
    person.commit({"forgepool.yaml": own.replace("no-such-tool", "test -f README").replace("b.example", "c.example")})
    assert f"add this line below `rules:` in {path}:\n" in person.forgepool("init", "--try").err


def test_json_has_each_check_its_reason_and_the_text(person: Person) -> None:
    said = json.loads(person.forgepool("init", "--json").out)
    assert [one["name"] for one in said["checks"]] == ["test", "lint"]
    assert "pytest.ini" in said["checks"][0]["why"]
    assert read_gate_file(said["text"]).checks
    assert (said["written"], said["has_one"]) == (None, False)


def test_json_of_nothing_found_is_an_object_too(tmp_path: Path) -> None:
    said = person_in(tmp_path, {"README": "words\n"}).forgepool("init", "--json")
    assert (said.status, json.loads(said.out)["checks"]) == (1, [])


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--repo", "/nowhere/at/all"), "there is no such folder"),
        (("--repo", "/"), "not a git repository"),
        (("--repo", "https://example.org/a.git"), "not on this host; clone it"),
    ],
)
def test_what_is_no_repository_is_told_in_one_sentence(person: Person, argv: tuple[str, ...], words: str) -> None:
    said = person.forgepool("init", *argv)
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1), said.err
    assert words in said.err


def test_a_bare_repository_is_proposed_to_and_not_written_into(person: Person) -> None:
    bare = person.folder.parent / "bare.git"
    person.git("clone", "-q", "--bare", str(person.folder), str(bare))
    assert "python3 -m pytest -q" in person.forgepool("init", "--repo", str(bare)).out
    refused = person.forgepool("init", "--repo", str(bare), "--write")
    assert refused.status == 2 and "no work tree to write into" in refused.err


def test_a_repository_without_a_commit_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    person = Person(tmp_path / "work")
    person.git("init", "-q")
    said = person.forgepool("init")
    assert said.status == 2 and "has no commit" in said.err


def test_the_version_is_that_of_the_package(person: Person) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    said = person.forgepool("--version")
    assert (said.status, said.out, said.err) == (0, f"forgepool {version}\n", "")
