"""The agents that tasks name in a plan file, as orders carry them."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from forgepool.orchestrator.plan.entries import SURVEY, PlanReading, WrittenTask, script_in
from forgepool.orchestrator.plan.fan_out import AgentEntry, BuiltinEntry, LadderEntry, TaskEntry
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.orders import (
    AcpAgent,
    AgentSpec,
    BuiltinAgent,
    CliAgent,
    CommandAgent,
    HintSettings,
    PhaseName,
    ScriptedAgent,
)

_Scripts = dict[str, str | DocumentWrong]


def read_agents(
    reading: PlanReading, written: Iterable[WrittenTask], folder: Path
) -> dict[str, tuple[AgentSpec, AgentSpec | None]]:
    """Return each task's agent, and that of the tasks which it leads; a script's text is read from its file."""
    agents: dict[str, tuple[AgentSpec, AgentSpec | None]] = {}
    scripts: _Scripts = {}
    for each in written:
        own = each.entry.agent
        if own is None:
            sentence = f"task '{each.entry.id}' has no agent; write 'agent: {{builtin: {{}}}}' there or in 'defaults'"
            reading.refuse(each.index, (), sentence)
        elif (agent := _agent(reading, each, "agent", own, folder, scripts)) is not None:
            leads = each.entry.leads
            led = None if leads is None else _agent(reading, each, "leads", leads, folder, scripts)
            agents[each.entry.id] = agent, led
    return agents


def _agent(
    reading: PlanReading, each: WrittenTask, key: str, agent: AgentEntry, folder: Path, scripts: _Scripts
) -> AgentSpec | None:
    """Return the agent written under that key; None for a script that cannot be used."""
    if agent.builtin is not None:
        return _builtin(agent.builtin, each.entry)
    if agent.cli is not None:
        return CliAgent(program=agent.cli.program, model=agent.cli.model)
    if agent.acp is not None:
        return AcpAgent(run=agent.acp)
    if agent.command is not None:
        return CommandAgent(run=agent.command)
    assert agent.scripted is not None
    if agent.scripted not in scripts:
        scripts[agent.scripted] = script_in(folder, agent.scripted)
    match scripts[agent.scripted]:
        case DocumentWrong() as wrong:
            sentence = f"task '{each.entry.id}' has a script that cannot be used: {wrong}"
            reading.refuse(each.index, (key, "scripted"), sentence)
            return None
        case script:
            return ScriptedAgent(script=script)


def _builtin(written: BuiltinEntry, task: TaskEntry) -> BuiltinAgent:
    chosen: dict[PhaseName, str | None] = {"plan": written.models.plan, "execute": written.models.execute}
    return BuiltinAgent(
        model=written.model,
        models={phase: model for phase, model in chosen.items() if model is not None},
        red_first=written.red_first,
        hints=_hints(written, task),
        skill=written.skill,
        context=written.context,
        workflow=written.workflow,
    )


def _hints(written: BuiltinEntry, task: TaskEntry) -> bool | HintSettings:
    if written.hints is None or task.disable_file_hints:
        return False
    return written.hints if written.hints != HintSettings() else True


def read_ladders(
    reading: PlanReading, written: Iterable[WrittenTask], agents: Mapping[str, tuple[AgentSpec, AgentSpec | None]]
) -> dict[str, tuple[str, ...]]:
    """Return each task's ladder of models; one of the defaults is only for built-in agents that name no model."""
    return {
        each.entry.id: _ladder(reading, each, agents[each.entry.id][0]) for each in written if each.entry.id in agents
    }


def _ladder(reading: PlanReading, each: WrittenTask, agent: AgentSpec) -> tuple[str, ...]:
    attempts = each.entry.attempts
    if not isinstance(attempts, LadderEntry) or each.entry.id == SURVEY:
        return ()
    keys = reading.source.tasks[each.index].model_fields_set
    own, own_agent = "attempts" in keys, "agent" in keys
    if isinstance(agent, BuiltinAgent):
        named = agent.model is not None or bool(agent.models)
        wrong = "its agent names a model of its own; remove one of them" if named and own == own_agent else ""
        left_out = named and own_agent
    else:
        wrong = f"a {agent.kind} agent takes no model from it; write a number" if own or not own_agent else ""
        left_out = True
    if wrong:
        reading.refuse(each.index, ("attempts",), f"task '{each.entry.id}' has a ladder of models, and {wrong}")
    if wrong or left_out:
        return ()
    ladder = attempts.ladder.get(each.entry.type, ()) if isinstance(attempts.ladder, dict) else attempts.ladder
    if own and attempts.race and not each.entry.answers and not ladder:
        lacks = f"'ladder' has no entry for type '{each.entry.type}'"
        wrong = f"'race' of task '{each.entry.id}' has no ladder to race on: {lacks}; add one, or remove 'race'"
        reading.refuse(each.index, ("attempts",), wrong)
    elif own and attempts.race and (each.entry.answers or len(ladder) < attempts.race):
        wrong = "it answers, and lands nothing" if each.entry.answers else "its ladder has fewer than two models"
        reading.refuse(each.index, ("attempts",), f"task '{each.entry.id}' is to race, and {wrong}; remove 'race'")
    return ladder
