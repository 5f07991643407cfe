"""Tasks that answer, against a server that speaks the vendors' wire formats: calls, citations, context and gaps."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from host_kit import Host
from vendors.answers import Brain, Say, Seen, Wire
from vendors.server import VendorServer

from forgepool.workers.schema.orders import BuiltinAgent, ScriptedAgent
from forgepool.workers.schema.reports import Prior, Report

KEY = "THE_TEST_KEY"
LONG = "".join(f"line {number}\n" for number in range(1, 31))
SKILL = "---\nname: knows\ndescription: Answers from what it is given.\ncontext-mode: injected\n---\n\nBe brief.\n"
FILES = {"a.py": "def old():\n    return 1\n", "long.txt": LONG, ".forgepool/skills/knows.md": SKILL}
RIGHT = {"summary": "It is in a.py.", "missing": ["its age"], "evidence": [{"path": "a.py", "lines": [1, 2]}]}
WRONG = RIGHT | {"evidence": [{"path": "a.py", "lines": [1, 3]}]}
Serve = Callable[..., VendorServer]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setenv(KEY, "k-1")
    return Host(tmp_path, FILES)


@pytest.fixture
def serve(host: Host, request: pytest.FixtureRequest) -> Serve:
    def go(brain: Brain, wire: Wire = "anthropic") -> VendorServer:
        server = VendorServer(brain, models=["m"])
        server.__enter__()
        request.addfinalizer(lambda: server.__exit__(None, None, None))
        url = server.url if wire == "anthropic" else f"{server.url}/v1"
        path = host.folder / "models.yaml"
        path.write_text(
            f"accounts:\n  local: {{wire: {wire}, key: {KEY}, base_url: '{url}'}}\n"
            "models:\n  m: {account: local, family: test, window_tokens: 100000, max_output_tokens: 4000}\n"
            "routes:\n  code: {primary: m, reason: a test, source: here, date: '2026-11-01'}\n"
            "  hints: {primary: m, reason: a test, source: here, date: '2026-11-01'}\nbudget: m\n"
        )
        host.settings = host.settings.model_copy(update={"models": path})
        return server

    return go


def ask(host: Host, skill: str | None = None, **said: Any) -> Any:
    return host.carry_out(answers=True, agent=BuiltinAgent(skill=skill), title="Where is old?", **said)


@pytest.mark.parametrize("wire", ["anthropic", "openai-responses", "openai-chat"])
def test_an_injected_agent_answers_in_one_forced_call(host: Host, serve: Serve, wire: Wire) -> None:
    """No call for hints, none to read; the system prompt ends with the skill, and the card has what the task reads."""
    server = serve(lambda seen: Say(calls=[("report", RIGHT)]), wire)
    done = ask(host, "knows", reads=("*.py",), references=("long.txt:3-4",))
    assert (done.outcome, done.commit, done.missing) == ("reported", None, ("its age",))
    assert done.report.evidence[0].lines == (1, 2)
    (seen,) = server.seen
    assert server.invalid == [] and seen.tools == ["report"]
    assert seen.body["tool_choice"] == ({"type": "any"} if wire == "anthropic" else "required")
    card = seen.texts[0]
    assert "### long.txt:3-4\n\n    line 3\n    line 4\n" in card and "line 5" not in card
    assert "### a.py\n\n    def old():" in card
    assert "Be brief." in str(seen.body) and "Be brief." not in card


def test_a_second_call_mends_a_refused_form_and_there_is_no_third(host: Host, serve: Serve) -> None:
    server = serve(lambda seen: Say(calls=[("report", RIGHT if seen.answered else WRONG)]))
    assert ask(host, "knows").outcome == "reported"
    assert len(server.seen) == 2
    assert server.seen[1].results == ["the report is not accepted: 'a.py' has 2 lines, and no lines 1 to 3"]
    stubborn = serve(lambda seen: Say(calls=[("report", WRONG)]))
    done = ask(host, "knows", attempt=2)
    assert len(stubborn.seen) == 2
    assert (done.outcome, done.report) == ("agent_failed", None)
    assert done.detail == (
        "its two calls brought nothing that counts; to the last: "
        "the report is not accepted: 'a.py' has 2 lines, and no lines 1 to 3"
    )


def test_an_agent_that_looks_for_itself_reads_and_cannot_write(host: Host, serve: Serve) -> None:
    def brain(seen: Seen) -> Say:
        return Say(calls=[("report", RIGHT)] if seen.answered else [("read_file", {"path": "a.py"})])

    server = serve(brain)
    done = ask(host, references=("gone.md", "long.txt:29-99"), priors=(Prior(task="b", report=Report(summary="s")),))
    assert done.outcome == "reported" and "refs/forgepool/r/results/t/1" in host.hub_refs()
    hints, first = server.seen[:2]
    assert hints.tools == [] and len(server.seen) == 3
    assert {"read_file", "grep", "glob", "report"} <= set(first.tools)
    assert not {"write_file", "edit_file", "bash", "commit_plan", "finish"} & set(first.tools)
    assert "tool_choice" not in first.body
    assert "### gone.md\n\n(There is no such text file at the base commit.)" in first.texts[0]
    assert "### long.txt:29-99\n\n    line 29\n    line 30\n" in first.texts[0]


def test_a_finished_answer_is_not_asked_for_again(host: Host, serve: Serve) -> None:
    """The result is in the hub before it is told: a second delivery of the order finds it."""
    server = serve(lambda seen: Say(calls=[("report", RIGHT)]))
    first = ask(host, "knows")
    again = ask(host, "knows", resent=True, token="other")
    assert (again.report, again.token, len(server.seen)) == (first.report, "other", 1)


@pytest.mark.parametrize(
    ("cited", "wrong"),
    [
        ({"path": "b.py"}, "there is no file 'b.py' at the base commit"),
        ({"path": "../a.py"}, "there is no file '../a.py' at the base commit"),
        ({"path": "a.py", "lines": [2, 1]}, "'a.py' has 2 lines, and no lines 2 to 1"),
        ({"task": "c"}, "'c' is no task that this one needs; those are: b"),
        ({"commit": "HEAD"}, "'HEAD' is no commit of this repository"),
        ({"commit": "0" * 40}, f"'{'0' * 40}' is no commit of this repository"),
        ({}, "a citation has exactly one of path, task and commit; this one is {"),
        ({"path": "a.py", "task": "b"}, "a citation has exactly one of path, task and commit; this one is {"),
        ({"task": "b", "lines": [1, 1]}, "lines belong to a path; this citation is {"),
    ],
)
def test_a_citation_of_what_does_not_exist_is_refused(
    cited: dict[str, object], wrong: str, host: Host, serve: Serve
) -> None:
    sent = RIGHT | {"evidence": [cited, {"task": "b"}, {"commit": host.base[:10]}, {"path": "a.py"}]}
    server = serve(lambda seen: Say(calls=[("report", RIGHT if seen.answered else sent)]))
    assert ask(host, "knows", priors=(Prior(task="b"),)).outcome == "reported"
    (said,) = server.seen[1].results
    assert said.startswith(f"the report is not accepted: {wrong}") and ";" not in said.partition(wrong)[2].strip(".")


def test_a_summary_that_is_too_long_is_refused(host: Host, serve: Serve) -> None:
    sent = RIGHT | {"summary": "word " * 151}
    server = serve(lambda seen: Say(calls=[("report", RIGHT if seen.answered else sent)]))
    assert ask(host, "knows").outcome == "reported"
    assert server.seen[1].results == ["the report is not accepted: the summary has 151 words; at most 150"]


def test_one_that_explores_without_end_is_told_to_report_and_then_fails(host: Host) -> None:
    read = "  - calls: [{tool: read_file, path: a.py}]\n  - calls: [{tool: glob, pattern: '*'}]\n"
    done = host.carry_out(answers=True, agent=ScriptedAgent(script="turns:\n" + read * 40), title="Where?")
    assert done.outcome == "agent_failed" and done.report is None
    assert "told to report, the agent went on exploring" in done.detail or "goes in circles" in done.detail


PLANS_NOTHING = """
turns:
  - phase: plan
    calls: [{tool: commit_plan, plan: "It is there already.", files_to_modify: []}]
"""


@pytest.mark.parametrize(("acceptance", "outcome"), [("grep -q old a.py", "no_change"), ("false", "verify_failed")])
def test_a_plan_without_files_is_done_where_the_acceptance_commands_agree(
    acceptance: str, outcome: str, host: Host
) -> None:
    done = host.carry_out(agent=ScriptedAgent(script=PLANS_NOTHING), acceptance=(acceptance,))
    assert (done.outcome, done.nothing_to_do) == (outcome, True)


TOUCHES = """
turns:
  - phase: plan
    calls: [{tool: commit_plan, plan: "Change it.", files_to_modify: [a.py]}]
  - phase: plan
    calls: [{tool: commit_plan, plan: "Run it.", files_to_modify: [CHOSEN]}]
  - calls: [{tool: bash, command: "COMMAND"}]
  - calls: [{tool: finish, summary: "done"}]
"""


def test_a_task_that_writes_nothing_may_finish_so_and_is_told_when_it_does_not(host: Host) -> None:
    script = TOUCHES.replace("CHOSEN", "").replace("COMMAND", "true").split("  - calls")
    run = "turns:\n  - calls" + "  - calls".join(script[1:])
    done = host.carry_out(agent=ScriptedAgent(script=run), writes_nothing=True)
    assert (done.outcome, done.nothing_to_do) == ("no_change", False)
    told = host.carry_out(
        agent=ScriptedAgent(script=run.replace("true", "echo > a.py")), writes_nothing=True, attempt=2
    )
    assert told.outcome == "out_of_scope"
    assert "the task declares `files: []`, so it may change nothing" in told.detail
