"""`forgepool policy explain`: answers for people and programs, from the files that apply where it runs."""

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import structlog

from forgepool.orchestrator.cli.app import main

KEYS = ["command", "commands", "decision", "rule", "reason"]
GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}


@dataclass(frozen=True)
class Said:
    status: int
    out: str
    err: str


@dataclass(frozen=True)
class Place:
    """A folder with its own home."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    @property
    def env(self) -> dict[str, str]:
        return {
            "HOME": str(self.folder / "home"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "FORGEPOOL_HOME": str(self.folder / "home"),
            "FORGEPOOL_CACHE": str(self.folder / "cache"),
        }

    def explain(self, *argv: str, told: str = "") -> Said:
        """Run the command in this process, because starting a Python takes most of a second."""
        for name, value in self.env.items():
            self.monkeypatch.setenv(name, value)
        self.monkeypatch.chdir(self.folder / "here")
        self.monkeypatch.setattr(sys, "argv", ["forgepool", "policy", "explain", *argv])
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(told.encode())))
        with pytest.raises(SystemExit) as ended:
            main()
        said = self.capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Said(ended.value.code, said.out, said.err)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def commit(self, text: str) -> None:
        """Make a repository here, with this text as its gate file."""
        self.write("here/forgepool.yaml", text)
        who = ("-c", "user.name=n", "-c", "user.email=e@localhost")
        for argv in (("init", "-q", "-b", "main"), ("add", "-A"), (*who, "commit", "-q", "-m", "m")):
            subprocess.run(["git", *argv], cwd=self.folder / "here", env={"PATH": "/usr/bin:/bin", **GIT}, check=True)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Place]:
    (tmp_path / "here").mkdir()
    yield Place(tmp_path, monkeypatch, capsys)
    # The command has directed the logs to a standard error that ends with this test.
    structlog.reset_defaults()
    logging.basicConfig(force=True, handlers=[logging.NullHandler()])


def test_a_person_reads_the_commands_the_rule_and_why(place: Place) -> None:
    said = place.explain("sudo git push")
    assert (said.status, said.err) == (0, "")
    assert said.out.splitlines()[0].startswith("deny: `sudo git push`: ")
    assert "  by built-in: other-users\n" in said.out
    assert '  found ["sudo", "git", "push"]\n  found ["git", "push"]\n' in said.out


def test_one_json_object_for_one_command(place: Place) -> None:
    said = place.explain("git status; git push", "--json")
    found = json.loads(said.out)
    assert (said.status, list(found)) == (0, KEYS)
    assert found["commands"] == [["git", "status"], ["git", "push"]]
    assert (found["decision"], found["rule"]) == ("deny", "built-in: git-push")


def test_commands_on_standard_input_are_answered_line_by_line(place: Place) -> None:
    """Each line is a JSON string, and each answer a JSON object. Unparsable commands are null."""
    asked = ["git status", "git push", "echo '", "", "echo 'two\nlines'", "é \ud800", "ls\u0000"]
    said = place.explain(told="".join(json.dumps(each) + "\n" for each in asked))
    assert (said.status, said.err) == (0, "")
    found = [json.loads(line) for line in said.out.splitlines()]
    assert [each["command"] for each in found] == asked
    assert all(list(each) == KEYS for each in found)
    assert [each["decision"] for each in found] == ["allow", "deny", "deny", "prompt", "allow", "deny", "deny"]
    assert [each["commands"] for each in found][2:4] == [None, []]


@pytest.mark.parametrize("line", ["git push", "7", "null", '["git push"]', '"git'])
def test_a_line_that_is_no_json_string_is_told(line: str, place: Place) -> None:
    """The message has the line's number, and earlier lines are answered."""
    said = place.explain(told=f'"ls"\n{line}\n"ls"\n')
    assert said.status == 2
    assert said.err == 'forgepool: standard input:2: is not a JSON string; write "git push", with quotes\n'
    assert len(said.out.splitlines()) == 1


def test_an_empty_line_is_passed_over_and_a_deep_one_told(place: Place) -> None:
    """An empty line gets no answer, and one too deep for a parser gets a sentence."""
    said = place.explain(told='\n"ls"\n  \n"pwd"\n')
    assert (said.status, len(said.out.splitlines())) == (0, 2)
    assert "standard input:1" in place.explain(told="[" * 100_000 + "\n").err


@pytest.mark.parametrize("told", ["", "\n"])
def test_nothing_on_standard_input_is_told(told: str, place: Place) -> None:
    said = place.explain(told=told)
    assert (said.status, said.out) == (2, "") and "there is nothing to judge; give a command" in said.err


def test_a_command_that_cannot_be_read_is_denied_for_that(place: Place) -> None:
    said = place.explain("$X push")
    assert said.out.startswith("deny: ") and "\n  because its commands cannot be determined\n" in said.out
    assert "by the default" not in said.out


def test_the_command_itself(place: Place) -> None:
    """Run it as a process: its input, its answer and its exit status."""
    done = subprocess.run(
        [sys.executable, "-m", "forgepool.orchestrator.cli", "policy", "explain"],
        cwd=place.folder / "here",
        env={"PATH": "/usr/bin:/bin", **place.env},
        input='"git push"\n7\n',
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and done.stderr.startswith("forgepool: standard input:2: ")
    assert json.loads(done.stdout)["decision"] == "deny"


def test_a_file_alone_and_over_what_is_shipped(place: Place) -> None:
    """`--policy` uses only that file. A person's own file is laid over the shipped rules."""
    text = "version: 1\nrules:\n  - {match: {tool: bash, command: git push}, decision: allow, reason: mine}\n"
    alone = place.write("p.yaml", text)
    place.write("config/forgepool/policy.yaml", text)
    for argv, decisions in (((), ["allow", "allow"]), (("--policy", str(alone)), ["allow", "prompt"])):
        said = place.explain(*argv, told='"git push"\n"git status"\n')
        assert [json.loads(line)["decision"] for line in said.out.splitlines()] == decisions, argv
    assert "by person: " in place.explain("git push").out


def test_the_repositorys_rules_are_those_of_its_branch(place: Place) -> None:
    """Uncommitted changes do not count."""
    head = "version: 1\nchecks: {test: make}\npolicy:\n"
    place.commit(head + "  - {match: {tool: bash, command: make}, decision: deny, reason: slow}\n")
    place.write("here/forgepool.yaml", head + "  - {match: {tool: bash}, decision: allow}\n")
    said = json.loads(place.explain("make", "--json").out)
    assert (said["decision"], said["rule"]) == ("deny", "repository: forgepool.yaml:4")
    assert json.loads(place.explain("git push", "--json").out)["decision"] == "deny"


def test_tools_paths_phases_and_hosts(place: Place) -> None:
    for argv, decision, rule in (
        (("--tool", "write_file", "--path", "src/a.py"), "allow", "built-in: writing"),
        (("--tool", "write_file", "--path", ".git/config"), "deny", "built-in: git-folder"),
        (("--path", "src/../../x"), "deny", "built-in: outside"),
        (("--tool", "write_file", "--path", "a", "--phase", "plan"), "deny", "phase: plan-only-looks"),
        (("--tool", "bash"), "audit", "built-in: shell"),
        (("--tool", "bash_background", "git push"), "deny", "built-in: git-push"),
        (("--tool", "no_such_tool"), "prompt", None),
        (("--host", "169.254.169.254"), "deny", "built-in: metadata"),
        (("--host", "packages.example.org"), "prompt", None),
    ):
        said = place.explain(*argv, "--json")
        found = json.loads(said.out)
        assert (said.status, found["decision"], found["rule"]) == (0, decision, rule), (argv, said)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("ls", "--phase", "verify"), "--phase is 'verify'; it must be plan or execute"),
        (("--host", "a b"), "--host must be a host"),
        (("ls", "--policy", "none.yaml"), "none.yaml: there is no such file"),
        (("ls", "--repo", "nowhere"), "there is no such folder"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(argv: tuple[str, ...], words: str, place: Place) -> None:
    said = place.explain(*argv)
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1) and words in said.err


def test_a_wrong_policy_is_told_with_its_line(place: Place) -> None:
    place.write("config/forgepool/policy.yaml", "version: 1\nrules:\n  - {match: {}, decision: deny}\n")
    said = place.explain("ls")
    assert said.status == 2 and "policy.yaml:3: 'match' of rule 1 names nothing" in said.err
