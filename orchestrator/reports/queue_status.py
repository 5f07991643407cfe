"""How an entry of a queue stands and why, in words: derived from the state, never stored. Pure."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from forgepool.orchestrator.reports.event_text import advice_words
from forgepool.orchestrator.reports.host_text import clock
from forgepool.orchestrator.state.run import RunState, branch_of, with_branches
from forgepool.orchestrator.state.streaks import is_pausing
from forgepool.orchestrator.state.task import TaskState
from forgepool.orchestrator.state.train import decorate_line
from forgepool.supervisor.messages.answers import name_partner
from forgepool.supervisor.train.coupling import in_order
from forgepool.supervisor.train.model import TrainPolicy
from forgepool.supervisor.train.surprise import admission
from forgepool.workers.schema.error_lines import error_lines
from forgepool.workers.workspace.scans.findings import ScanFinding, finding_words

_ENOUGH = 8
"""Submissions within an hour below which no overload is reported."""

_MOST_SHOWN = 5
"""Paths in a proposed command."""
_MOST_NOTES = 20

Places = Mapping[str, int]
"""The place of each entry in the queue, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryStanding:
    """One line of `queue status`."""

    entry: str
    state: str
    """`waits`, `tested`, `green`, `in review`, `wants a person`, `landing`, `landed`, `returned`, `withdrawn`."""
    place: int | None
    """Place in the queue, from 1; None for one that is not queued."""
    revision: int
    commit: str
    by: str
    klass: str
    since: float
    """Unix seconds of its last change of state."""
    code: str
    """Reason for its state, as a word for programs."""
    blocked_by: str
    """The entry, check or trial that it waits for or failed by; empty where there is none."""
    landed_as: str
    why: str
    """One sentence."""
    next: str
    """Command that a person can run; empty where nothing is to be done."""


def standings(
    state: RunState, now: float, *, in_line: int | None = None, ended: int | None = None
) -> list[EntryStanding]:
    """Return queued entries in queue order, then ended ones, the latest first, each up to its limit."""
    places = _places(state)
    line = sorted((one for one in state.tasks.values() if one.id in places), key=lambda task: places[task.id])
    others = [one for one in state.tasks.values() if one.id not in places and one.id in state.submitted]
    others.sort(key=lambda task: -task.since)
    return [standing_of(state, task, now, places) for task in (*line[:in_line], *others[:ended])]


def standing_of(state: RunState, task: TaskState, now: float, places: Places | None = None) -> EntryStanding:
    """Return how one entry stands. `places`, those of this state, are computed unless given."""
    entry = state.submitted[task.id]
    places = _places(state) if places is None else places
    word, code, by, why, todo = _stand(state, task, now, places)
    return EntryStanding(
        entry=branch_of(state, task.id),
        state=word,
        place=places.get(task.id),
        revision=entry.revision,
        commit=entry.commit,
        by=entry.by,
        klass=entry.klass,
        since=task.since,
        code=code,
        blocked_by=with_branches(state, by),
        landed_as=task.commit,
        why=with_branches(state, why),
        next=with_branches(state, todo),
    )


def overload(state: RunState, now: float, slots: int) -> str | None:
    """Return a warning where submissions of the last hour exceed what the queue can test; else None."""
    lately = [name for name in state.submitted if now - state.tasks[name].first_started < 3600]
    checked = [task.verdict.seconds for task in state.tasks.values() if task.verdict is not None]
    outcomes = state.train.outcomes
    if len(lately) < _ENOUGH or not checked:
        return None
    minutes = sum(checked) / len(checked) / 60
    return admission(len(lately), minutes, sum(outcomes) / max(1, len(outcomes)), slots)


def explain_task(state: RunState, task: TaskState, now: float) -> str:
    """
    Explain one entry: a paragraph on what it is, how it stands and why. Then, one line each, the first errors of its
    log, the command that reproduces them, and the next step.
    """
    entry, stand = state.submitted[task.id], standing_of(state, task, now)
    place = f", at place {stand.place} of {len(state.train.line.entries)}" if stand.place else ""
    revision = f", revision {entry.revision}" if entry.revision > 1 else ""
    said = [
        f"'{task.id}'{revision} ({entry.commit[:12]}{f', by {entry.by}' if entry.by else ''}, {entry.klass}) "
        f"{_verb(stand.state)} {clock(task.since, now)}{place}: {stand.why}."
    ]
    reason = task.reasons[-1] if task.reasons and task.reasons[-1].attempt == task.attempt else None
    if reason is not None and any(test not in stand.why for test in reason.tests[:5]):
        said.append(f"Red: {', '.join(reason.tests[:5])}.")
    if reason is not None and reason.conflicting_entry and reason.kind != "conflict":
        said.append(f"It is green alone and red together with {name_partner(reason.conflicting_entry)}, which landed.")
    advice = task.verdict.advice if task.verdict is not None else ()
    said += [f"Check {one.words}." for one in advice if one.words not in stand.why]
    if (later := refusal(state, task.id)) is not None:
        said.append(later)
    lines = error_lines(reason.log_tail) if reason is not None else ()
    errors = [f"  | {line}" for line in lines if line not in stand.why]
    again = [f"see it again: {reason.reproduce}"] if reason is not None and reason.reproduce else []
    todo = [f"next: {stand.next}"] if stand.next else []
    return with_branches(state, "\n".join([" ".join(said), *errors, *again, *todo, *describe_reported_findings(task)]))


def describe_reported_findings(task: TaskState) -> list[str]:
    """Return the scan notes on the entry's change, which do not block, as lines."""
    notes = [one for one in findings_of(task) if one.weight == "note"]
    more = [f"  and {len(notes) - _MOST_NOTES} more, which --json has"] if len(notes) > _MOST_NOTES else []
    lines = [f"  {finding_words(note)}" for note in notes[:_MOST_NOTES]]
    return ["scan notes, which do not block:", *lines, *more] if notes else []


def findings_of(task: TaskState) -> list[ScanFinding]:
    """Return the findings in the entry's own change, without those in branches tested with it."""
    return [one for one in (task.verdict.findings if task.verdict else ()) if one.is_of(task.id)]


def refusal(state: RunState, name: str) -> str | None:
    """Return why the last submission under the name was not accepted; None if it was."""
    event = state.refused.get(name)
    if event is None:
        return None
    said = f"The last submission named '{name}' ({event.commit[:12]}) was not accepted: {event.why}."
    return with_branches(state, said)


def _verb(word: str) -> str:
    match word:
        case "waits":
            return "waits since"
        case "landed":
            return "landed at"
        case "returned" | "withdrawn":
            return f"was {word} at"
        case "wants a person":
            return "has waited for a person since"
        case _:
            return f"is {word} since"


def _places(state: RunState) -> dict[str, int]:
    classes: dict[str, dict[str, object]] = {
        entry: {"klass": state.submitted[entry].klass} for entry in state.train.line.entries if entry in state.submitted
    }
    line = decorate_line(state.train.line, classes, {})
    return {
        one: at for at, one in enumerate(in_order(line.snapshot(slots=1, policy=TrainPolicy(), surprise=0.0)), start=1)
    }


Stand = tuple[str, str, str, str, str]


def _stand(state: RunState, task: TaskState, now: float, places: Places) -> Stand:
    match task.phase:
        case "landed":
            return _landed(state, task)
        case "landing":
            return "landing", "landing", "", f"{state.target} is being moved to what was tested", ""
        case "reviewing" | "reviewed":
            todo = f"forgepool approve {state.run} {task.id} --by NAME" if task.review.message is None else ""
            why = task.detail or "its checks are green, and it needs a review or an approval"
            return "in review", "review", "", why, todo
        case "needs_human":
            run = f"{state.run} {task.id}"
            todo = f"forgepool approve {run} --by NAME, or forgepool reject {run} REASON --by NAME"
            return "wants a person", task.parked_for or "trouble", "", task.question or task.detail, todo
        case "failed" | "blocked":
            return _returned(state, task)
        case "cancelled":
            return "withdrawn", "withdrawn", "", "it was withdrawn", _again(task)
        case _:
            return _in_line(state, task, now, places)


def _landed(state: RunState, task: TaskState) -> Stand:
    if task.id in state.lost:
        why = f"it landed as {task.commit[:12]}, which {state.target} no longer contains"
        return "landed", "lost", "", why, "if it is still wanted, submit it again under another name"
    against = advice_words(task.verdict) if task.verdict is not None else ""
    return "landed", "landed", "", (task.detail or f"it is {task.commit[:12]} in {state.target}") + against, ""


def _returned(state: RunState, task: TaskState) -> Stand:
    reason = task.reasons[-1] if task.reasons and task.phase == "failed" else None
    kind = reason.kind if reason is not None else "need"
    by = (reason.conflicting_entry or "") if reason is not None else ""
    mend = f"merge {state.target} into the branch" if kind == "conflict" else "push a better commit"
    todo = _again(task, mend) + (_leave_for(task) if kind == "findings" else "")
    return "returned", kind, by, reason.summary if reason is not None else task.detail, todo


def _again(task: TaskState, mend: str = "push a better commit") -> str:
    return f"{mend}, then: forgepool queue submit BRANCH --name {task.id}"


def _leave_for(task: TaskState) -> str:
    """Return the command that grants what the scans refused; empty where secrets are among it."""
    from forgepool.workers.workspace.scans.scanning import leave_for

    held = [one for one in findings_of(task) if one.weight != "note"]
    paths, rules = leave_for(held)
    globs = any(character in path for path in paths for character in "*?[]{}")
    if not held or globs or len(paths) > _MOST_SHOWN or any(finding.rule == "secret" for finding in held):
        return ""
    words = [shlex.quote(path) for path in paths] + [f"--waive {rule}" for rule in rules]
    return f"; or, if this is intended: forgepool queue grant {task.id} {' '.join(words)}"


def _in_line(state: RunState, task: TaskState, now: float, places: Places) -> Stand:
    shut = _shut(state)
    if shut is not None:
        return "waits", "gate", "", shut, "forgepool queue resume"
    if (words := state.train.refused.get(task.id)) is not None:
        return "waits", "refused", "", f"{words}; it waits for a person to retry it", f"forgepool queue retry {task.id}"
    if task.id in state.held:
        return "waits", "held", "", "a person holds it", f"forgepool queue release {task.id}"
    if is_pausing(task.not_before, now):
        again = clock(task.not_before, now)
        return "waits", "infrastructure", "", f"{task.detail}; it is tried again at {again}", ""
    needs = [need for need in state.submitted[task.id].needs if state.tasks[need].phase != "landed"]
    if needs:
        return "waits", "need", needs[0], f"it needs '{needs[0]}', which has not landed yet", ""
    return _frozen(state, task, now, _tried(state, task, places))


def _frozen(state: RunState, task: TaskState, now: float, tried: Stand) -> Stand:
    """Adjust how an entry stands to a freeze. Checks still run in one."""
    until = state.rules.frozen_until(now)
    if until is None or state.submitted[task.id].klass == "hotfix":
        return tried
    why = f"only hotfixes land in {state.target} before {state.rules.clock(until)}"
    if tried[1] == "trial":
        return (*tried[:3], f"{tried[3]}; {why}", "")
    state_word = "green" if state.train.line.entries[task.id].vetted else "waits"
    return state_word, "frozen", "", f"{why}{'; it passed its checks alone' if state_word == 'green' else ''}", ""


def frozen_words(state: RunState, now: float) -> str | None:
    """Return one sentence during a freeze; else None."""
    until = state.rules.frozen_until(now)
    return None if until is None else f"only hotfixes land before {state.rules.clock(until)}"


def _shut(state: RunState) -> str | None:
    if state.paused:
        return f"the queue is paused: {state.paused}"
    return f"the queue is paused: {state.halted}" if state.halted else None


def place_words(state: RunState, task: TaskState) -> str:
    """Describe in a few words what a queued task or entry waits for."""
    return _tried(state, task, _places(state))[3]


def _tried(state: RunState, task: TaskState, places: Places) -> Stand:
    trials = [trial for trial in state.train.line.trials.values() if task.id in trial.car]
    running = next((one for one in trials if one.state == "running"), None)
    if running is not None:
        others = [one for one in running.car if one != task.id]
        beside = f" together with {_listed(others)}" if others else ""
        behind = f", behind {_listed(running.ahead)}" if running.ahead else ""
        holder = state.train.out[running.id].holder
        where = f"run on {holder}" if holder else "wait for a worker"
        return "tested", "trial", running.id, f"its checks {where}{beside}{behind}", ""
    green = next((one for one in trials if one.state == "green"), None)
    if green is not None and green.ahead:
        why = f"it is green behind {_listed(green.ahead)}, and lands with or after {_it(green.ahead)}"
        return "green", "predecessor", green.ahead[-1], why, ""
    doubted = next((one for one in trials if one.state == "red" and one.ahead), None)
    if doubted is not None:
        why = f"it failed behind {_listed(doubted.ahead)}, which may be the cause; it is retried"
        return "waits", "doubted", doubted.ahead[-1], why, ""
    before = places.get(task.id, 1) - 1
    one, many = ("branch", "branches") if task.id in state.submitted else ("task", "tasks")
    why = f"one {one} is ahead of it" if before == 1 else f"{before} {many} are ahead of it" if before else ""
    return "waits", "line", "", why or "it is next", ""


def _listed(names: tuple[str, ...] | list[str]) -> str:
    shown = [f"'{name}'" for name in names[:5]] + ([f"{len(names) - 5} more"] if len(names) > 5 else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _it(names: tuple[str, ...]) -> str:
    return "it" if len(names) == 1 else "them"
