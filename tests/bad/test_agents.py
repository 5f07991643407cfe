"""Agents that misbehave harm at most their own task. One run has them all, with innocent tasks between them."""

import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from premises import Premises, Said, Tasks

LANDED = ("innocent", "daemon", "after-daemon", "flood", "read-only", "committer", "replacer", "odd-names", "outside")
FAILED = {
    "hanging": "silent and changed nothing",
    "endless": "did not end within",
    "idle-hands": "changed no file",
    "deleter": "is gone",
    "nested": "is a git repository of its own",
    "garbage": "ended with status 3",
    "unaccepted": "exited with 4",
}
_FLOOD_BYTES = 1_000_000_000
_KEPT_BYTES = 1_000_000
_ESCAPES = r"\033]0;owned\007\033[31mred\033[2J\233\000\377\r"


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The one run, after its end."""

    premises: Premises
    said: Said
    trap: Path
    """A file that a trap in a git configuration would have made."""
    outcomes: dict[str, str]
    details: dict[str, str]

    def log(self, task: str) -> Path:
        return self.premises.home / "runs" / self.premises.run_name() / "logs" / "orders" / task / "1" / "agent.log"


def _tasks(folder: Path) -> Tasks:
    pid, trap = folder / "daemon.pid", folder / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {shlex.quote(str(folder / 'trapped'))}\n")
    trap.chmod(0o755)
    daemon = f"setsid sh -c 'echo $$ > {pid}.part; mv {pid}.part {pid}; exec sleep 1000' >/dev/null 2>&1 &"
    new = "git init -q . && git add -A && git commit -q -m mine"
    odd = r"mkdir odd && cd odd && touch ./-dash 'two words' '*' \\ && printf x > \"$(printf 'new\nline')\""

    def task(command: str, *files: str, **keys: object) -> dict[str, object]:
        return {"agent": {"command": command}, "files": list(files), **keys}

    return {
        "innocent": "echo 1 > innocent.txt",
        "hanging": task("sleep 1000", "hanging.txt", limits={"idle_s": 1}),
        "endless": task("while :; do echo still here; sleep 0.1; done", "endless.txt", limits={"wall_s": 2}),
        "daemon": f"({daemon}); while ! test -e {pid}; do sleep 0.02; done; echo 1 > daemon.txt",
        "after-daemon": task(f"! kill -0 $(cat {pid}) && echo 1 > after.txt", "after.txt", needs=["daemon"]),
        "idle-hands": task("echo all done, boss", "idle-hands.txt", unchanged="fail"),
        "flood": task(
            f"echo 1 > flood.txt; head -c {_FLOOD_BYTES} /dev/zero; echo the end",
            "flood.txt",
            limits={"output_bytes": _KEPT_BYTES},
        ),
        "deleter": 'rm -rf "$PWD"',
        "read-only": "echo 1 > read-only.txt; chmod -R a-w .",
        "committer": "echo 1 > committer.txt; git checkout -q -b mine && git add -A && git commit -q -m mine",
        "replacer": f"rm -rf .git && echo 1 > replacer.txt && {new} && git config core.fsmonitor {trap}",
        "nested": task(
            f"mkdir nested && cd nested && touch a && {new} && git config core.fsmonitor {trap}", "nested/**"
        ),
        # A line break in a file's name is refused, unless a person allows it.
        "odd-names": task(odd.replace('\\"', '"'), "odd/**", waive=["letters"]),
        "outside": task("echo 1 > outside.txt; echo 1 > elsewhere.txt", "outside.txt"),
        "garbage": task(f"printf '{_ESCAPES}garbage\\n'; printf '{_ESCAPES}' >&2; exit 3", "garbage.txt"),
        "unaccepted": task("echo 1 > unaccepted.txt", "unaccepted.txt", acceptance=["[ -e [x] ] || exit 4"]),
    }


@pytest.fixture(scope="module")
def batch(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Batch]:
    """Run them all, four at a time and without a sandbox, which would keep half of them from trying."""
    premises = Premises.at(tmp_path_factory.mktemp("batch")).unconfined()
    shutil.copytree(template, premises.repo)
    plan = premises.plan(_tasks(premises.folder), defaults={"attempts": 1})
    said = premises.run(plan, "--workers", "4")
    now = premises.forgepool("status", premises.run_name(), "--json")
    yield Batch(
        premises=premises,
        said=said,
        trap=premises.folder / "trapped",
        outcomes=now.outcomes(),
        details=now.details(),
    )


def test_the_good_tasks_land_and_the_bad_ones_do_not(batch: Batch) -> None:
    expected = dict.fromkeys(LANDED, "landed") | dict.fromkeys(FAILED, "failed")
    assert batch.outcomes == expected, batch.said
    assert batch.said.status == 1
    assert sorted(batch.premises.landed()) == sorted(LANDED)


@pytest.mark.parametrize("task", FAILED)
def test_a_bad_task_is_told_in_one_sentence(batch: Batch, task: str) -> None:
    assert FAILED[task] in batch.details[task]
    assert "\n" not in batch.details[task]
    batch.said.has_no_traceback()


def test_a_flood_of_output_is_bounded_and_keeps_its_end(batch: Batch) -> None:
    log = batch.log("flood").read_bytes()
    assert len(log) <= _KEPT_BYTES
    assert b"bytes are missing here" in log
    assert log.endswith(b"the end\n")


def test_no_command_of_an_agents_git_configuration_ever_runs(batch: Batch) -> None:
    assert batch.outcomes["replacer"] == "landed"
    assert not batch.trap.exists()


def test_an_agents_own_commit_is_not_what_lands(batch: Batch) -> None:
    """The harness makes the commit that lands, with its trailers. No branch of the agent's lands."""
    messages = batch.premises.git("log", "--format=%s", "forgepool/p").splitlines()
    assert "mine" not in messages
    assert batch.premises.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split() == [
        "forgepool/p",
        "main",
    ]


def test_files_of_odd_names_land_under_their_names(batch: Batch) -> None:
    odd = {name.removeprefix("odd/") for name in batch.premises.files() if name.startswith("odd/")}
    assert odd == {"-dash", "two words", "*", "\\", "new\nline"}


def test_what_an_agent_wrote_outside_its_files_lands_under_a_lock(batch: Batch) -> None:
    assert {"outside.txt", "elsewhere.txt"} <= set(batch.premises.files())
    assert "outside: also locks elsewhere.txt" in batch.said.out


@pytest.mark.parametrize("command", ["run", "status", "report", "events", "events --json", "runs"])
def test_nothing_an_agent_prints_steers_the_terminal(batch: Batch, command: str) -> None:
    """The output of `garbage` and the names of `odd-names` are shown without colours and other control characters."""
    said = batch.said if command == "run" else batch.premises.forgepool(*_words(batch, command))
    steering = {letter for letter in said.out + said.err if not letter.isprintable()} - {"\n"}
    assert steering == set()
    if command in ("run", "report"):
        assert "garbage" in said.out
        assert "[31m" not in said.out, "colours are taken out of excerpts of logs"
    if command == "status":
        assert "[x] ]" in said.out


def _words(batch: Batch, command: str) -> list[str]:
    name, *options = command.split()
    return [name, *([batch.premises.run_name()] if name != "runs" else []), *options]


def test_scope_strict_refuses_what_was_written_outside_the_declared_files(premises: Premises) -> None:
    tasks = {"one": "echo 1 > one.txt; echo 1 > README", "two": "echo 2 > two.txt"}
    said = premises.run(premises.plan(tasks, scope="strict", defaults={"attempts": 1}), "--json")
    assert said.status == 1
    assert said.outcomes() == {"one": "failed", "two": "landed"}
    assert "it changed README, which its `files` do not cover" in said.details()["one"]
    assert premises.git("show", "forgepool/p:README") == "read me"


def test_a_file_whose_name_is_no_text_is_the_agents_failure(premises: Premises) -> None:
    """A name that is not UTF-8 cannot be part of a message. The task fails, and its details say so."""
    tasks: Tasks = {"one": {"agent": {"command": r"touch $(printf '\377')"}, "attempts": 1}, "two": "echo 2 > two.txt"}
    said = premises.run(premises.plan(tasks), "--json")
    assert said.status == 1
    assert said.outcomes() == {"one": "failed", "two": "landed"}
    assert "UTF-8" in said.details()["one"]


def test_an_agent_that_asks_holds_up_its_own_task_until_a_person_has_answered(premises: Premises) -> None:
    turns = [
        {"calls": [{"tool": "ask", "question": "which word?"}]},
        {
            "when": {"shown_contains": "blue"},
            "calls": [{"tool": "write_file", "path": "asks.txt", "content": "blue\n"}],
        },
        {"calls": [{"tool": "finish", "summary": "written"}]},
    ]
    (premises.folder / "turns.yaml").write_text(yaml.safe_dump({"turns": turns}))
    asks = {"agent": {"scripted": "turns.yaml"}, "files": ["asks.txt"], "review": "none"}
    said = premises.run(premises.plan({"asks": asks, "other": "echo 1 > other.txt"}), "--json")
    assert said.status == 1
    assert said.outcomes() == {"asks": "needs_human", "other": "landed"}
    name = premises.run_name()
    assert f"which word? (answer with: forgepool answer {name} asks TEXT)" in said.details()["asks"]
    assert premises.forgepool("answer", name, "asks", "blue").status == 0
    assert premises.forgepool("resume", name).status == 0
    assert premises.git("show", "forgepool/p:asks.txt") == "blue"
