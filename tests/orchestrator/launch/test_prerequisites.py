"""The first look at a hub leaves nothing behind."""

from pathlib import Path

import pytest
from plans import course, task
from repositories import git

from forgepool.orchestrator.launch.prerequisites import check_agents, check_hub_writable, find_tight_windows
from forgepool.orchestrator.plan.document import Plan, TaskNeed
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.schema.orders import BuiltinAgent, CliAgent, ScriptedAgent
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.hub.mirror import open_mirror


def test_our_probe_goes_also_where_that_of_another_run_cannot_be_removed(tmp_path: Path) -> None:
    """A merge queue runs for weeks, and looks once."""
    hub, other = tmp_path / "hub.git", "refs/forgepool/other/probe"
    git(tmp_path, "init", "-q", "--bare", str(hub))
    hook = hub / "hooks" / "update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\ntest "$1" != {other}\n')
    mirror = open_mirror(str(hub), tmp_path / "cache")
    git(hub, "update-ref", other, git(hub, "hash-object", "-w", str(hook)))
    hook.chmod(0o755)
    check_hub_writable(mirror, "ours")
    assert git(hub, "for-each-ref", "--format=%(refname)") == other


@pytest.mark.parametrize(
    ("window", "full", "warns"), [(30_000, True, True), (30_000, False, False), (900_000, True, False)]
)
def test_whole_results_that_may_not_fit_a_models_window_are_warned_of(
    window: int, full: bool, warns: bool, tmp_path: Path
) -> None:
    table = tmp_path / "models.yaml"
    table.write_text(
        "accounts: {lab: {wire: openai-chat, base_url: 'http://127.0.0.1:1/v1'}}\n"
        f"models: {{small: {{account: lab, family: lab, window_tokens: {window}}}}}\n"
    )
    needs = tuple(TaskNeed(id=one, full=full) for one in "abc")
    agent = BuiltinAgent(model="small")
    plan: Plan = course(
        *(task(one, agent=agent) for one in "abc"), task("sum", agent=agent).model_copy(update={"needs": needs})
    ).plan
    said = list(find_tight_windows(plan, Settings(home=tmp_path, models=table)))
    assert len(said) == warns
    if warns:
        assert "task 'sum' needs the whole result of 3 tasks, up to about 123,000 tokens" in said[0]
        assert "model 'small' has a window of 30,000" in said[0]


def test_the_program_of_the_tasks_that_a_lead_dispatches_must_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    lead = task("lead", agent=ScriptedAgent(script="turns: []"), answers=True, leads=CliAgent(program="claude"))
    with pytest.raises(CannotRun, match="task 'lead' needs claude, which is not on PATH"):
        check_agents(course(lead).plan, Settings(home=tmp_path))
