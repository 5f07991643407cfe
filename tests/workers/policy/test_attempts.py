"""Whole orders under a policy with the rules of the base commit, the plan and a person."""

from pathlib import Path

import pytest
from host_kit import Host

from forgepool.workers.agents.render_transcript import narrate_entries
from forgepool.workers.context.transcript.entries import Answered, CallJudged, ConversationStarted
from forgepool.workers.schema.orders import Reply, ScriptedAgent, WorkResult
from forgepool.workers.schema.policy_rules import RuleEntry

GATE = """\
version: 1
checks: {test: "true"}
policy:
  - {match: {tool: write_file, path: locked/**}, decision: deny, reason: it is locked}
  - {match: {tool: write_file, path: forgepool.yaml}, decision: allow}
  - {match: {tool: apply_patch}, decision: deny, reason: no patches}
"""
SCRIPT = """\
turns:
  - calls:
      - {{tool: write_file, path: a, content: "2"}}
      - {{tool: write_file, path: {path}, content: "2"}}
  - calls: [{{tool: finish, summary: done}}]
"""


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path, {"a": "1\n", "locked/x": "1\n", "forgepool.yaml": GATE})


def work(host: Host, path: str, **said: object) -> WorkResult:
    return host.carry_out(agent=ScriptedAgent(script=SCRIPT.format(path=path)), **said)


def judged(host: Host, attempt: int = 1) -> list[tuple[str, str | None]]:
    return [(each.decision, each.rule) for each in host.transcript(attempt) if isinstance(each, CallJudged)]


def rule(**match: object) -> RuleEntry:
    decision = match.pop("decision")
    return RuleEntry.model_validate({"match": match, "decision": decision, "name": "planned"})


def test_a_denied_file_stays_as_it_was_and_every_decision_is_in_the_transcript(host: Host) -> None:
    """The other call is carried out, and the printed transcript shows both decisions."""
    done = work(host, "locked/x")
    assert (done.outcome, done.paths) == ("candidate", ("a",)), done.detail
    assert judged(host) == [("allow", "built-in: writing"), ("deny", "repository: forgepool.yaml:4")]
    told = [each.result for each in host.transcript() if isinstance(each, Answered)]
    assert told[1].is_error and "it is locked" in told[1].text
    text = narrate_entries(host.transcript())
    assert "(allow write_file: " in text and "it is locked; repository: forgepool.yaml:4)" in text


def test_a_repository_does_not_loosen(host: Host) -> None:
    """Its own `allow` for the gate file does not override the shipped `prompt`, which means no when unattended."""
    assert work(host, "forgepool.yaml").paths == ("a",)
    assert judged(host)[1] == ("prompt", "built-in: gate")


def test_rules_are_the_bases_and_not_what_the_agent_wrote(host: Host) -> None:
    """Rewriting the gate file changes no rule of the attempt."""
    script = (
        "turns:\n"
        "  - calls: [{tool: write_file, path: forgepool.yaml, content: 'version: 1'}]\n"
        "  - calls: [{tool: write_file, path: locked/x, content: '2'}]\n"
        "  - calls: [{tool: finish, summary: done}]\n"
    )
    opened = rule(tool="write_file", path="forgepool.yaml", decision="allow")
    done = host.carry_out(agent=ScriptedAgent(script=script), policy=(opened,))
    assert done.paths == ("forgepool.yaml",), done.detail
    assert judged(host) == [("allow", "plan: planned"), ("deny", "repository: forgepool.yaml:4")]


def test_a_plan_lifts_no_deny(host: Host) -> None:
    opened = rule(tool="write_file", path="locked/x", decision="allow")
    assert work(host, "locked/x", policy=(opened,)).paths == ("a",)


def test_a_parked_task_rests_and_goes_on_with_a_persons_yes(host: Host) -> None:
    """The question names the call. After a yes the same call is carried out in the next attempt."""
    script = (
        "turns:\n"
        "  - {attempt: 1, calls: [{tool: write_file, path: a, content: '2'}]}\n"
        "  - {attempt: 1, calls: [{tool: write_file, path: forgepool.yaml, content: 'version: 1'}]}\n"
        "  - {attempt: 2, calls: [{tool: write_file, path: forgepool.yaml, content: 'version: 1'}]}\n"
        "  - {attempt: 2, calls: [{tool: finish, summary: done}]}\n"
    )
    agent = ScriptedAgent(script=script)
    parked = host.carry_out(agent=agent, unattended="park")
    assert parked.outcome == "needs_human" and "May the agent use write_file `forgepool.yaml` [" in parked.question
    assert parked.resumable
    said = (Reply(question=parked.question, answer="yes", by="ann"),)
    done = host.carry_out(agent=agent, attempt=2, resumes=1, unattended="park", replies=said)
    assert (done.outcome, done.paths) == ("candidate", ("a", "forgepool.yaml")), done.detail
    assert [each[0] for each in judged(host, 2)] == ["allow", "prompt", "allow"]


def test_a_tool_that_is_denied_outright_is_not_offered(host: Host) -> None:
    """The plan or the person's file denies it. The transcript lists what is offered."""
    path = host.folder / "policy.yaml"
    path.write_text("version: 1\nrules: [{match: {tool: bash}, decision: deny}]\n")
    host.settings = host.settings.model_copy(update={"policy": path})
    work(host, "b", policy=(rule(tool="edit_file", decision="deny"),))
    (started,) = (each for each in host.transcript() if isinstance(each, ConversationStarted))
    assert "write_file" in started.tools
    assert not {"bash", "edit_file"} & set(started.tools)


def test_a_wrong_policy_of_the_hosts_is_for_a_person_to_mend(host: Host) -> None:
    path = host.folder / "policy.yaml"
    path.write_text("version: 1\nrules: [{match: {}, decision: deny}]\n")
    host.settings = host.settings.model_copy(update={"policy": path})
    done = work(host, "b")
    assert done.outcome == "needs_human" and "policy.yaml:2: 'match' of rule 1 names nothing" in done.detail
