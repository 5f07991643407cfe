"""Which gate of this home a person means: by its name, by its target, or by an entry that only one of them has."""

from collections.abc import Sequence
from dataclasses import dataclass

from forgepool.orchestrator.decisions.queue.submissions import earlier_name, entry_name
from forgepool.orchestrator.reports.queue_status import refusal
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.orchestrator.state.run import RunState, branch_of
from forgepool.workers.schema.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEntry:
    """An entry, and the gate that has it."""

    kept: KeptRun
    state: RunState
    name: str


def gates_called(settings: Settings, name: str | None) -> list[KeptRun]:
    """
    Those that the name may mean, all without one: a gate's own name, the branch that it stands before, or a beginning
    of its name, whichever fits first.

    Raises:
        CannotRun: there is none.
    """
    names = sorted(one for one in run_folder.run_names(settings) if one.startswith("gate-"))
    if not names:
        raise CannotRun("this home keeps no queue; start one with: forgepool queue serve --repo HUB --target BRANCH")
    kept = [run_folder.open_run(settings, one, with_course=False) for one in names]
    found = kept if name is None else _called(kept, name)
    if not found:
        raise CannotRun(f"there is no queue '{name}'; there are: {_listed(kept)}")
    return found


def gate_called(settings: Settings, name: str | None) -> KeptRun:
    """The one that is meant. Raises CannotRun."""
    return _only(gates_called(settings, name))


def find_entry(settings: Settings, entry: str, gate: str | None) -> FoundEntry:
    """
    The entry, where only one of the gates that may be meant has it.

    Raises:
        CannotRun: none has it, with why it was not taken in where one knows that; or several have it.
    """
    kept = gates_called(settings, gate)
    states = [one.state() for one in kept]
    named = (entry_name(entry), earlier_name(entry))
    name = next((one for one in named if any(one in state.submitted for state in states)), named[0])
    having = [at for at, state in enumerate(states) if name in state.submitted]
    if len(having) == 1:
        return FoundEntry(kept=kept[having[0]], state=states[having[0]], name=name)
    if having:
        raise CannotRun(f"'{name}' is an entry of several queues; say of which, with --target: {_listed(kept, having)}")
    if (why := next((why for state in states if (why := refusal(state, name)) is not None), None)) is not None:
        raise CannotRun(why)
    latest = (
        ", ".join(
            [name for state in states for name in [branch_of(state, one) for one in [*state.submitted][-8:]]][-8:]
        )
        or "none yet"
    )
    who = kept[0].options.run if len(kept) == 1 else "any queue"
    raise CannotRun(f"no entry '{entry}' has been taken in by {who}; the latest are: {latest}")


def _called(kept: Sequence[KeptRun], name: str) -> list[KeptRun]:
    return (
        [one for one in kept if one.options.run == name]
        or [one for one in kept if one.options.target == name]
        or [one for one in kept if one.options.run.startswith((name, f"gate-{name}"))]
    )


def _only(kept: Sequence[KeptRun]) -> KeptRun:
    if len(kept) > 1:
        raise CannotRun(f"several queues may be meant; name one with --target: {_listed(kept)}")
    return kept[0]


def _listed(kept: Sequence[KeptRun], some: Sequence[int] | None = None) -> str:
    """By their targets, where that tells them apart."""
    shown = kept if some is None else [kept[at] for at in some]
    targets = [one.options.target for one in kept]
    told = (one.options.target if targets.count(one.options.target) == 1 else one.options.run for one in shown)
    return ", ".join(told)
