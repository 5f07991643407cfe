"""
When all checks are run on the target itself, and what follows: pure.

A wave is due after every so many landings since one was green, and at the end of the run if anything has landed since.
"""

from collections.abc import Sequence

from forgepool.orchestrator.decisions.orders.start_orders import token
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.events import GateHalted, WaveSent
from forgepool.orchestrator.state.post_merge import WaveState
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import MOST_TROUBLES, TERMINAL, is_pausing


def is_due(course: PlanIndex, state: RunState) -> bool:
    """Whether the run may neither let anything in nor end before the target was found green as a whole."""
    wanted = course.plan.gate.wave
    if wanted is None or not (landed := len(list_landed_since(state))):
        return False
    if wanted.every is not None and landed >= wanted.every:
        return True
    return all(task.phase in TERMINAL for task in state.tasks.values())


def next_wave(state: RunState, now: float) -> list[WaveSent]:
    """The request for it, once the gate is free."""
    wave = state.wave
    if wave.message is not None or is_pausing(wave.not_before, now):
        return []
    landed = list_landed_since(state)
    if landed:
        return [request_all_checks(state, now, "wave", since=wave.since, tasks=landed)]
    tasks = list_landed_after(state, state.wave_review.upto)
    return [request_all_checks(state, now, "wave", since=state.wave_review.since, tasks=tasks)]


def request_all_checks(state: RunState, now: float, word: str, *, since: str, tasks: tuple[str, ...]) -> WaveSent:
    """Return the request for all checks on the target, after these landings; the word begins its name."""
    number = state.wave.number + 1
    message_id = f"{state.run}.{word}-{number}"
    return WaveSent(
        number=number,
        message_id=message_id,
        token=token(message_id, now),
        base=state.tip,
        since=since,
        tasks=tasks,
        issued_at=now,
    )


def give_up_check(state: RunState) -> list[GateHalted]:
    """That infrastructure has failed it too often: what nobody could ask is not taken for green."""
    if state.wave.troubles < MOST_TROUBLES or state.halted:
        return []
    why = f"{landings_of(state.wave)}: infrastructure failed it {state.wave.troubles} times in a row, lastly: "
    return [GateHalted(why=why + state.wave.detail, infrastructure=True)]


def list_landed_since(state: RunState) -> tuple[str, ...]:
    """Tasks that have landed since the target was found green as a whole, in their order."""
    return list_landed_after(state, state.wave.upto)


def list_landed_after(state: RunState, number: int) -> tuple[str, ...]:
    """Tasks that have landed after the event of that number, in their order."""
    landed = [task for task in state.in_phase("landed") if task.landed_at > number]
    return tuple(task.id for task in sorted(landed, key=lambda task: task.landed_at))


def landings_of(wave: WaveState) -> str:
    """`all checks on c7 after the landings of 'a', 'b' and 9 more since c3`, commits shortened."""
    if not wave.tasks:
        return f"all checks on {wave.base[:12]}, before anything has landed on it"
    return f"all checks on {wave.base[:12]}, after {of_landings(wave.tasks)} since {wave.asked_since[:12]}"


def of_landings(tasks: Sequence[str]) -> str:
    """`the landings of 'a', 'b' and 9 more`."""
    shown = ", ".join(f"'{task}'" for task in tasks[:10])
    more = f" and {len(tasks) - 10} more" if len(tasks) > 10 else ""
    return f"the landings of {shown}{more}"
