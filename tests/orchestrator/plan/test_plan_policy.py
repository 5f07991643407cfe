"""Rules, hosts and unattended prompts: what a plan lets its agents do."""

from pathlib import Path

import pytest

from forgepool.orchestrator.launch.prerequisites import check_agents
from forgepool.orchestrator.plan.document import Plan, dump_plan, parse_plan, read_expanded
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.policy.network import HostsRefused
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.settings import Settings

HEAD = "version: 1\nname: p\nchecks: none\n"


def plan(text: str) -> Plan:
    return parse_plan(HEAD + text, "plan.yaml", Path(), list)


def test_a_tasks_rules_are_added_to_the_defaults_and_its_hosts_take_their_place() -> None:
    """The expanded plan contains them, and reads back the same."""
    found = plan(
        "defaults:\n"
        "  agent: {command: make}\n"
        "  unattended: park\n"
        "  network: [a.example.org]\n"
        "  policy: [{match: {tool: bash, command: make}, decision: allow}]\n"
        "tasks:\n"
        "  - {id: one}\n"
        "  - id: two\n"
        "    unattended: deny\n"
        "    network: ['*.example.net']\n"
        "    policy: [{match: {path: x}, decision: deny, reason: not that}]\n"
    )
    one, two = found.tasks
    assert (one.unattended, one.network, len(one.policy)) == ("park", ("a.example.org",), 1)
    assert (two.unattended, two.network) == ("deny", ("*.example.net",))
    assert [each.decision for each in two.policy] == ["allow", "deny"]
    assert read_expanded(dump_plan(found)) == found


def test_nothing_said_is_no_rule_no_host_and_a_no() -> None:
    (task,) = plan("tasks: [{id: one, agent: {command: make}}]").tasks
    assert (task.policy, task.network, task.unattended) == ((), (), "deny")


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        ("unattended: ask", "'unattended' of task 'one' must be 'deny' or 'park', is 'ask'"),
        ("network: a.example.org", "'network' of task 'one' must be a list, is 'a.example.org'"),
        ("network: ['*.org']", "'network' of task 'one' has the host '*.org': far too many hosts"),
        ("policy: [{match: {}, decision: deny}]", "'match' of rule 1 names nothing; name a tool"),
        ("policy: [{match: {path: ../x}, decision: deny}]", "'path' of rule 1 must not hold '..'"),
        ("policy: [{match: {tool: bash}}]", "policy 1 of task 'one' lacks the key 'decision'"),
        (
            "policy: [{match: {command: a}, decision: deny, match_examples: [b]}]",
            "rule 1 does not match its example 'b'",
        ),
    ],
)
def test_a_mistake_is_a_sentence_with_its_line(task: str, sentence: str) -> None:
    with pytest.raises(DocumentWrong) as wrong:
        plan(f"tasks:\n  - id: one\n    agent: {{command: make}}\n    {task}")
    assert wrong.value.mistakes[0].startswith(f"plan.yaml:7: {sentence}"), wrong.value.mistakes


def test_a_host_that_the_person_denies_is_refused_before_the_run(tmp_path: Path) -> None:
    """The reason is given, also when only a pattern includes the host."""
    own = tmp_path / "policy.yaml"
    own.write_text("version: 1\nrules: [{match: {network: evil.example.org}, decision: deny, reason: not there}]\n")
    settings = Settings(policy=own, home=tmp_path, cache=tmp_path)
    for host in ("evil.example.org", "'*.example.org'"):
        asking = plan(f"tasks: [{{id: one, agent: {{command: make}}, network: [{host}]}}]")
        with pytest.raises(HostsRefused, match=r"task 'one' wants the host .*, which is not allowed: .*not there"):
            check_agents(asking, settings)
    check_agents(plan("tasks: [{id: one, agent: {command: make}, network: [good.example.org]}]"), settings)


def test_a_persons_wrong_policy_is_refused_before_the_run(tmp_path: Path) -> None:
    own = tmp_path / "policy.yaml"
    own.write_text("version: 1\nrules: 7\n")
    with pytest.raises(DocumentWrong, match=r"policy\.yaml:2: 'rules' must be a list"):
        check_agents(
            plan("tasks: [{id: one, agent: {command: make}}]"), Settings(policy=own, home=tmp_path, cache=tmp_path)
        )


def test_a_check_of_the_plan_that_wants_an_unallowed_host_is_refused_before_the_run(tmp_path: Path) -> None:
    """The gate would refuse it, too, but after the work is done."""
    settings = Settings(home=tmp_path, cache=tmp_path)
    said = "tasks: [{id: one, agent: {command: make}}]"
    net = CheckDefinition(name="net", run="make", network=("a.example.org",))
    asking = plan(said).model_copy(update={"checks": (net,)})
    with pytest.raises(HostsRefused, match=r"check 'net' wants the host a\.example\.org"):
        check_agents(asking, settings)
