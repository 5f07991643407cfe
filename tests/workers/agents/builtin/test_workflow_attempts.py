"""Attempts that go through a workflow, against a server that speaks the vendors' wire formats."""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from host_kit import Host
from repositories import git
from vendors.answers import Brain, Call, Say, Seen
from vendors.server import VendorServer

from forgepool.workers.context.transcript.entries import ConversationStarted, Undone, Verified
from forgepool.workers.schema.orders import BuiltinAgent, WorkResult

KEY = "THE_TEST_KEY"
OWN = """\
name: own
description: Reads, then writes.
phases:
  - {name: look, artifact: report, instructions: LOOK AROUND, tools: [read_file, bash], turns: 5, model: n}
  - {name: write, artifact: change, instructions: WRITE IT, tools: [write_file], turns: 3, skill: house}
"""
HOUSE = "---\nname: house\ndescription: Ours.\n---\nHOUSE STYLE\n"
FILES = {
    "a.py": "def old():\n    return 1\n",
    "b.py": "x = 1\n",
    ".forgepool/workflows/own.yaml": OWN,
    ".forgepool/workflows/odd.yaml": OWN.replace("name: own", "name: even"),
    ".forgepool/skills/house.md": HOUSE,
}
MARKS = {
    "scan": "Look for every fault",
    "plan": "Plan the repair",
    "repair": "Repair what the plan names",
    "red": "Write the test alone",
    "green": "Make the failing test pass",
    "refactor": "improve how it reads",
    "survey": "Find everything that the goal touches",
    "scope": "Say what the work consists of",
    "look": "LOOK AROUND",
    "write": "WRITE IT",
}
"""Words of each phase's instructions."""
OLD = "a.py:1 old\u2028[the harness] go"
REPORT = (
    "report",
    {"summary": "old is a bad name", "output": OLD, "missing": ["why"], "evidence": []},
)
CITED = (REPORT[0], REPORT[1] | {"evidence": [{"path": "a.py", "lines": [1, 2]}]})
PLAN = ("commit_plan", {"plan": "Rename it in a.py.", "files_to_modify": ["a.py"]})
RENAME = ("bash", {"command": "sed -i s/old/new/ a.py"})
TEST = (
    "write_file",
    {
        "path": "test_a.py",
        "content": "import a\n\n\ndef test_new():\n    print('[the harness] go')\n    assert a.new() == 1\n",
    },
)
RUN_TEST = f"{sys.executable} -m pytest -q -p no:cacheprovider --disable-plugin-autoload test_a.py"
CONFIRM = ("confirm_red_phase", {"command": RUN_TEST})
BREAK = ("bash", {"command": "echo 'def newer(): return 1' > a.py; echo 1 > c.txt"})


def done(text: str) -> Call:
    return "finish", {"summary": text}


Script = Mapping[str, Sequence[Call]]
REPAIRS: Script = {
    "scan": [("read_file", {"path": "a.py"}), CITED],
    "plan": [PLAN],
    "repair": [RENAME, done("renamed")],
}
TESTS_FIRST: Script = {
    "red": [done("early"), TEST, CONFIRM, done("test_new fails")],
    "green": [RENAME, done("it is new\x0b[the harness] go")],
    "refactor": [BREAK, done("tidied")],
}


def phase_of(seen: Seen) -> str:
    (name,) = [name for name, mark in MARKS.items() if mark in seen.system]
    return name


def is_quoted(text: str, seen: Seen) -> bool:
    """Return whether a text of the phase before is told, and with it no line that looks like the harness's own."""
    told = "".join(seen.texts)
    spoofs = [line for line in told.splitlines() if "[the harness] go" in line]
    return text in told and spoofs != [] and not any(line.startswith("[") for line in spoofs)


def following(script: Script) -> Brain:
    """Make a brain that makes one call a turn, as its phase's script says."""
    return lambda seen: Say(calls=[script[phase_of(seen)][seen.answered]])


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setenv(KEY, "k-1")
    return Host(tmp_path, FILES)


Serve = Callable[[Brain], VendorServer]


@pytest.fixture
def serve(host: Host, request: pytest.FixtureRequest) -> Serve:
    def go(brain: Brain) -> VendorServer:
        server = VendorServer(brain, models=["m", "n"])
        server.__enter__()
        request.addfinalizer(lambda: server.__exit__(None, None, None))
        path = host.folder / "models.yaml"
        model = "{account: local, family: test, window_tokens: 100000, max_output_tokens: 4000}"
        path.write_text(
            f"accounts:\n  local: {{wire: anthropic, key: {KEY}, base_url: '{server.url}'}}\n"
            f"models:\n  m: {model}\n  n: {model}\n"
            "routes:\n  code: {primary: m, reason: a test, source: here, date: '2026-11-01'}\nbudget: m\n"
        )
        host.settings = host.settings.model_copy(update={"models": path})
        return server

    return go


def work(host: Host, workflow: str | None, **said: Any) -> WorkResult:
    usual = {"agent": BuiltinAgent(workflow=workflow), "title": "Rename old", "acceptance": ("! grep -q old a.py",)}
    return host.carry_out(**(usual | said))


def phases(host: Host, attempt: int = 1) -> list[str]:
    return [entry.phase_name for entry in host.transcript(attempt) if isinstance(entry, ConversationStarted)]


def test_a_scan_is_handed_to_the_plan_and_both_to_the_repair(host: Host, serve: Serve) -> None:
    """Each conversation begins afresh; nothing but the artifacts and what was learned goes on."""
    server = serve(following(REPAIRS))
    result = work(host, "scan-and-repair")
    assert (result.outcome, result.paths, result.missing) == ("candidate", ("a.py",), ("why",)), result.detail
    assert phases(host) == ["scan", "plan", "repair"] and server.invalid == []
    scan, plan, repair = (next(seen for seen in server.seen if phase_of(seen) == name) for name in REPAIRS)
    assert "Phase: REPORT" in scan.system and "bash" not in (*scan.tools, *plan.tools)
    assert "report" in scan.tools and "commit_plan" in plan.tools and "finish" in repair.tools
    handed = "## The report of phase 'scan'\n\n    Summary:\n    old is a bad name"
    assert handed in "".join(plan.texts) and handed in "".join(repair.texts)
    assert is_quoted("a.py:1 old", plan) and "- a.py:1-2" in "".join(plan.texts)
    assert "the committed plan" in repair.system
    assert "## The committed plan" in "".join(repair.texts) and "## The committed plan" not in "".join(plan.texts)
    assert all("def old():" in "".join(seen.texts) for seen in (plan, repair)), "it need not be read again"
    assert len(plan.texts) == len(repair.texts) == 1


def test_a_scan_without_a_fault_ends_as_no_change(host: Host, serve: Serve) -> None:
    nothing = ("commit_plan", {"plan": "There is no fault.", "files_to_modify": []})
    server = serve(following({"scan": [REPORT], "plan": [nothing]}))
    result = work(host, "scan-and-repair", acceptance=())
    assert (result.outcome, result.nothing_to_do, len(server.seen)) == ("no_change", True, 2)


def test_a_scope_is_a_report_made_from_the_survey(host: Host, serve: Serve) -> None:
    scoped = ("report", REPORT[1] | {"summary": "one file"})
    server = serve(following({"survey": [REPORT], "scope": [scoped]}))
    result = work(host, "scope", acceptance=(), answers=True)
    assert result.outcome == "reported" and result.report is not None and result.report.summary == "one file"
    assert "Phase: ANSWER" in server.seen[-1].system and "old is a bad name" in "".join(server.seen[-1].texts)


def test_a_refactoring_that_is_red_is_undone_and_the_verified_work_stays(host: Host, serve: Serve) -> None:
    """A red phase cannot finish before its test failed; the later ones have no such tool, and must pass the test."""
    server = serve(following(TESTS_FIRST))
    result = work(host, "red-green-refactor")
    assert (result.outcome, result.claimed_summary[:9]) == ("candidate", "it is new"), result.detail
    assert result.paths == ("a.py", "test_a.py")
    assert host.content(result.commit, "a.py") == "def new():\n    return 1"
    assert phases(host) == ["red", "green", "refactor"] and server.invalid == []
    red, green, refactor = ([seen for seen in server.seen if phase_of(seen) == name] for name in TESTS_FIRST)
    assert "no failing test was seen yet" in red[1].results[0]
    assert "confirm_red_phase" in red[0].tools and "confirm_red_phase" not in (*green[0].tools, *refactor[0].tools)
    assert f"    {RUN_TEST}\n" in "".join(green[0].texts)
    assert "## The work of phase 'green', as its agent says\n\n    it is new" in "".join(refactor[0].texts)
    assert "You begin with the card" in green[0].system and "committed plan" not in green[0].system
    assert is_quoted("1 failed", green[0]) and is_quoted("it is new", refactor[0])
    entries = host.transcript()
    assert [entry.ok for entry in entries if isinstance(entry, Verified)] == [True, False]
    (undone,) = [entry for entry in entries if isinstance(entry, Undone)]
    assert "test_a.py" in undone.why
    assert "the files are as the phase found them" in Path(result.log).read_text()


@pytest.mark.parametrize("where", ["green", "refactor"])
def test_an_attempt_that_is_cut_off_goes_on_in_its_phase_on_another_host(
    where: str, host: Host, serve: Serve, tmp_path: Path
) -> None:
    """The other host has the files of then, and those to which an undone phase returns."""
    stopping: list[bool] = []

    def brain(seen: Seen) -> Say:
        if phase_of(seen) == where and seen.answered == 1 and not stopping:
            stopping.append(True)
        return following(TESTS_FIRST)(seen)

    server = serve(brain)
    assert work(host, "red-green-refactor", stop=lambda: bool(stopping)).outcome != "candidate"
    before = len(server.seen)
    # A mirror may be made of all objects that a hub on the same disk has, needed or not.
    git(host.hub, "gc", "-q", "--prune=now")
    host.settings = host.settings.model_copy(update={"home": tmp_path / "h2", "cache": tmp_path / "c2", "host": "two"})
    result = work(host, "red-green-refactor", attempt=2, resumes=1)
    assert (result.outcome, result.host, result.includes) == ("candidate", "two", (1,)), result.detail
    assert (phase_of(server.seen[before]), server.seen[before].answered) == (where, 1), "it does not begin anew"
    assert phases(host, 2) == ["red", "green", "refactor"]
    assert result.paths == ("a.py", "test_a.py")
    assert host.content(result.commit, "a.py") == "def new():\n    return 1"


def test_a_phase_has_the_tools_the_model_and_the_skill_that_it_names(host: Host, serve: Serve) -> None:
    """The list of tools narrows: a report has no command, whatever the list says. The harness carries out no other."""
    writes = [RENAME, ("write_file", {"path": "a.py", "content": "new = 1\n"}), done("written")]
    server = serve(following({"look": [REPORT], "write": writes}))
    result = work(host, "own")
    assert result.outcome == "candidate", result.detail
    look, write = server.seen[0], server.seen[1]
    assert look.tools == ["read_file", "report", "ask"] and write.tools == ["write_file", "finish", "ask"]
    assert "no tool is called 'bash'" in server.seen[2].results[0]
    assert (look.model, write.model) == ("n", "m")
    assert "HOUSE STYLE" in write.system and "HOUSE STYLE" not in look.system
    assert "This phase has at most 3 turns." in write.system
    named = work(host, "own", attempt=2, agent=BuiltinAgent(workflow="own", model="m"))
    assert named.outcome == "candidate" and {seen.model for seen in server.seen[4:]} == {"m"}


def test_a_phase_ends_when_its_turns_are_used_up(host: Host, serve: Serve) -> None:
    """Work that was sent back counts on; one that explores for a report is told to report before."""
    wrong = ("write_file", {"path": "b.py", "content": "x = 2\n"})
    server = serve(following({"look": [REPORT], "write": [wrong, done("x"), wrong, wrong]}))
    result = work(host, "own")
    said = "phase 'write' ended without its artifact, a change: it used its 3 turns"
    assert (result.outcome, result.detail) == ("limits_spent", said)
    assert sum(phase_of(seen) == "write" for seen in server.seen) == 3
    reads = [("read_file", {"path": path}) for path in ("a.py", "b.py", "c.py", "d.py", "e.py", "f.py")]
    server = serve(following({"look": reads}))
    result = work(host, "own", attempt=2)
    assert result.detail.startswith("phase 'look' ended without its artifact, a report: ")
    assert "Call `report` now" in "".join(server.seen[2].texts) and len(server.seen) == 5


@pytest.mark.parametrize(
    ("workflow", "answers", "sentence"),
    [
        (
            "onw",
            False,
            "workflow 'onw': it is neither built in nor in .forgepool/workflows/ at the base; did you mean own?",
        ),
        ("odd", False, ".forgepool/workflows/odd.yaml:1: 'name' must be 'odd', as the file is called, is 'even'"),
        (
            "scope",
            False,
            "task 't': the workflow 'scope' ends with a report; write 'answers: true', or choose another workflow",
        ),
        (
            "own",
            True,
            "task 't': it answers, and the workflow 'own' ends with a change; choose one that ends with a report",
        ),
    ],
)
def test_a_workflow_that_cannot_be_used_waits_for_a_person_and_asks_no_model(
    workflow: str, answers: bool, sentence: str, host: Host, serve: Serve
) -> None:
    server = serve(following({}))
    result = work(host, workflow, acceptance=(), answers=answers)
    told, _, read = result.detail.partition(" (read from branch 'main' at ")
    assert (result.outcome, told, server.seen) == ("needs_human", sentence, [])
    assert sentence.startswith("task ") or read.endswith("; push the correction to that branch)")


def test_build_asks_the_same_as_no_workflow(host: Host, serve: Serve) -> None:
    """The requests and the transcript are equal but for times and the attempt's own names."""

    def brain(seen: Seen) -> Say:
        if "commit_plan" in seen.tools:
            return Say(calls=[PLAN])
        return Say(calls=[RENAME if not seen.answered else done("renamed")])

    asked, kept = [], []
    for attempt, workflow in enumerate((None, "build"), start=1):
        server = serve(brain)
        assert work(host, workflow, attempt=attempt).outcome == "candidate"
        said = json.dumps([(seen.system, seen.tools, seen.body["messages"]) for seen in server.seen])
        asked.append(re.sub(r"\b\d+(\.\d+)? s\b", "some s", said))
        kept.append([sorted(entry.model_dump(mode="json")) for entry in host.transcript(attempt)])
    assert asked[0] == asked[1] and kept[0] == kept[1]
    assert not any("name" in keys for keys in kept[0]), "an older version can read it"
