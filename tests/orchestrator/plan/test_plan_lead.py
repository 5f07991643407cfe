"""`leads` in a plan file: the task that leads its run, and the agent of the tasks that it dispatches."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from forgepool.orchestrator.plan.addition import check_growth
from forgepool.orchestrator.plan.document import Plan, PlanWrong, parse_plan, plan_digest
from forgepool.workers.schema.orders import BuiltinAgent, CliAgent

LEAD: dict[str, Any] = {"id": "lead", "agent": {"builtin": {}}, "leads": True}


def read(*tasks: dict[str, Any]) -> Plan:
    return parse_plan(yaml.safe_dump({"version": 1, "name": "p", "tasks": [*tasks]}), "p.yaml", Path(), lambda: ())


def test_a_lead_answers_writes_nothing_and_dispatches_to_the_built_in_agent() -> None:
    (lead,) = read(LEAD).tasks
    assert (lead.answers, lead.files, lead.leads) == (True, (), BuiltinAgent())


def test_a_lead_may_name_the_agent_of_its_tasks() -> None:
    (lead,) = read({**LEAD, "leads": {"cli": "claude"}}).tasks
    assert lead.leads == CliAgent(program="claude")


def test_a_plan_without_a_lead_has_the_digest_that_it_had() -> None:
    alone = {"id": "a", "agent": {"builtin": {}}}
    assert plan_digest(read(alone)) == plan_digest(read({**alone, "leads": False}))
    assert "leads" not in read(alone).tasks[0].model_dump()


@pytest.mark.parametrize(
    ("tasks", "sentence"),
    [
        ([{**LEAD, "files": ["a.py"]}], "task 'lead' leads and changes nothing; remove its 'files', or 'leads'"),
        ([{**LEAD, "acceptance": ["true"]}], "task 'lead' leads and changes nothing; remove its 'acceptance'"),
        (
            [{**LEAD, "agent": {"command": "true"}}],
            "task 'lead' leads, which only a 'builtin' or a 'scripted' agent can",
        ),
        ([LEAD, {**LEAD, "id": "other"}], "tasks 'lead' and 'other' both lead; one task leads a run"),
        ([{**LEAD, "leads": "yes"}], "'leads'"),
    ],
)
def test_a_lead_that_cannot_be_is_refused_with_its_line(tasks: list[dict[str, Any]], sentence: str) -> None:
    with pytest.raises(PlanWrong) as wrong:
        read(*tasks)
    assert any(sentence in mistake and mistake.startswith("p.yaml:") for mistake in wrong.value.mistakes)


def test_no_second_lead_is_added_to_a_run() -> None:
    plan, more = read(LEAD), read({**LEAD, "id": "other"}).tasks
    assert check_growth(plan, more, ()) == "the run has a lead, 'lead', already; take 'leads' out of 'other'"
