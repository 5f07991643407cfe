"""The needs of a task of its host: pure. A host tells what it can do at its start (`workers.order.host_facts`)."""

from collections.abc import Iterator

from forgepool.orchestrator.plan.document import Task
from forgepool.workers.schema import capabilities
from forgepool.workers.schema.capabilities import Need
from forgepool.workers.schema.orders import AcpAgent, BuiltinAgent, CliAgent

_LET_OUT = ("bubblewrap", "seatbelt", "off")
"""The sandboxes in which a command can be let out to a server."""


def find_needs(task: Task) -> tuple[Need, ...]:
    """Return the task's needs: labels as the plan says, all others by its agent, its models and its network."""
    return (*_derived(task), *(_label(name) for name in task.runs_on))


def _label(name: str) -> Need:
    return Need(
        words=f"the label '{name}' (forgepool worker --label {name})", any_of=frozenset([capabilities.label(name)])
    )


def _derived(task: Task) -> Iterator[Need]:
    match task.agent:
        case BuiltinAgent() as agent:
            yield from _models(task, agent)
        case CliAgent() as agent:
            yield from _program(agent)
        case AcpAgent() as agent:
            yield Need(words="the optional part acp", any_of=frozenset([capabilities.extra("acp")]))
            yield from _keys(agent.program, _acp_keys(agent))
        case _:
            pass
    if task.network or wants_model_server(task):
        levels = frozenset(map(capabilities.sandbox, _LET_OUT))
        yield Need(words="a sandbox with network (bubblewrap)", any_of=levels)


def _models(task: Task, agent: BuiltinAgent) -> Iterator[Need]:
    """A named model's route has others after it, which are asked where no host has a key for that one."""
    by_type = frozenset((capabilities.task_type(task.type), capabilities.task_type("code")))
    for name in dict.fromkeys((agent.models.get("plan", agent.model), agent.models.get("execute", agent.model))):
        if name is None:
            yield Need(words=f"a key for a model of '{task.type}' tasks", any_of=by_type)
        else:
            named = frozenset([capabilities.model(name)])
            yield Need(words=f"a key for the model {name}", any_of=named, else_any_of=by_type)


def _program(agent: CliAgent) -> Iterator[Need]:
    # It reads programs' output, which plans without such agents need not import.
    from forgepool.workers.agents.cli.performing import PROGRAMS

    program = PROGRAMS[agent.program]
    installed = frozenset([capabilities.program(agent.program)])
    yield Need(words=f"the program {agent.program} ({program.install})", any_of=installed)
    yield from _keys(agent.program, [key for vendor in program.vendors(agent.model) for key in vendor.keys])


def _keys(program: str, keys: list[str]) -> Iterator[Need]:
    if keys:
        yield Need(words=f"a key for {program} ({' or '.join(keys)})", any_of=frozenset(map(capabilities.key, keys)))


def _acp_keys(agent: AcpAgent) -> list[str]:
    from forgepool.workers.agents.cli.acp import vendors_of

    return [key for vendor in vendors_of(agent.program) for key in vendor.keys]


def wants_model_server(task: Task) -> bool:
    """Tell whether the task's agent is a program that asks a vendor's model."""
    agent = task.agent
    return isinstance(agent, CliAgent) or (isinstance(agent, AcpAgent) and bool(_acp_keys(agent)))
