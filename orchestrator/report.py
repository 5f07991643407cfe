"""The report of a run in plain text: derived from the journal alone."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from orchestrator import events as e
from orchestrator.bill import bill, bill_words, budget_words
from orchestrator.journal import Recorded
from orchestrator.runs import KeptRun
from orchestrator.state import State
from orchestrator.task_state import TaskState
from orchestrator.telling import answer_with, counted
from workers.sandbox.confinement import LEVEL_WORDS, Level


def report_lines(kept: KeptRun, state: State, recorded: Sequence[Recorded]) -> Iterator[str]:
    """What landed and by which proof, what did not and why, who did what where."""
    landed = sorted(state.in_phase("landed"), key=lambda task: task.ended)
    others = [task for task in state.tasks.values() if task.phase != "landed"]
    yield f"# {kept.plan.name}: {len(landed)} of {len(state.tasks)} tasks landed on {state.target}"
    yield ""
    yield f"run {state.run}, hub {state.hub}, target at {state.tip[:12]}, {_span(recorded)}"
    if landed:
        yield from ("", "## Landed, in this order", "")
        for task in landed:
            yield f"- {task.id} as {task.commit[:12]}: {_proof(task)}{_history(task)}"
            yield from _used(task)
    if others:
        yield from ("", "## Not landed", "")
        for task in others:
            yield f"- {task.id} ({task.phase}): {task.detail or ('interrupted' if task.attempt else 'not begun')}"
            if task.question:
                yield f"  - it asks a person; {answer_with(state.run, task.id)}"
            yield from _reasons(task)
            yield from _used(task)
    yield from _bill(kept, state)
    yield from ("", "## Hosts", "")
    yield from _hosts(recorded)


def _used(task: TaskState) -> Iterator[str]:
    said = bill_words(bill(task.uses.values()))
    if said:
        yield f"  - {said}"


def _bill(kept: KeptRun, state: State) -> Iterator[str]:
    """What the run used in all, and how its budget stands; nothing where neither says anything."""
    whole = bill(use for task in state.tasks.values() for use in task.uses.values())
    budget = list(budget_words(kept.course.ledger(state)))
    said = bill_words(whole)
    if said or budget:
        yield from ("", "## Models", "")
    if said:
        yield f"- in all: {said}"
    if whole.unpriced_attempts:
        known = f"{counted(whole.unpriced_attempts, 'attempt')} by models without a known price"
        yield f"- {known}: each counts against a budget in USD with all that was reserved for it"
    for one in budget:
        yield f"- budget: {one}"


def _span(recorded: Sequence[Recorded]) -> str:
    return f"{recorded[-1].at - recorded[0].at:.1f} s from first to last event" if recorded else "not begun"


def _proof(task: TaskState) -> str:
    if not task.certificates:
        return "no checks were asked for (`checks: none`)"
    tree = task.certificates[0].tree[:12]
    checks = ", ".join(f"{one.check} {one.seconds:.1f} s on {one.host}" for one in task.certificates)
    return f"green on tree {tree} ({checks})"


def _history(task: TaskState) -> str:
    if task.attempt <= 1:
        return ""
    earlier = "; ".join(f"attempt {reason.attempt}: {reason.summary}" for reason in task.reasons)
    return f", attempt {task.attempt}" + (f" ({earlier})" if earlier else "")


def _reasons(task: TaskState) -> Iterator[str]:
    for reason in task.reasons:
        yield f"  - attempt {reason.attempt}: {reason.summary}"
        if reason.reproduce:
            yield f"    see it again: {reason.reproduce}"
        for line in reason.log_tail.strip().splitlines()[-6:]:
            yield f"    | {line}"


def _hosts(recorded: Sequence[Recorded]) -> Iterator[str]:
    did: dict[str, Counter[str]] = defaultdict(Counter)
    held: dict[str, set[Level]] = defaultdict(set)
    lost = 0
    for one in recorded:
        match one.event:
            case e.OrderAnswered(result=result):
                did[result.host]["order"] += 1
                held[result.host] |= {result.sandbox} if result.sandbox else set()
            case e.CheckAnswered(result=result):
                did[result.host]["check run"] += 1
                held[result.host] |= {result.sandbox} if result.sandbox else set()
            case e.LandingAnswered(result=result):
                did[result.host]["landing"] += 1
            case e.MessageLost():
                lost += 1
            case _:
                pass
    for host in sorted(set(did) - {""}):
        work = ", ".join(counted(did[host][noun], noun) for noun in ("order", "check run", "landing"))
        yield f"- {host}: {work}" + "".join(f"; {LEVEL_WORDS[level]}" for level in sorted(held[host]))
    if lost:
        yield f"- lost with their workers and done again: {counted(lost, 'message')}"
