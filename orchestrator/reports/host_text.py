"""Events about workers, hosts and other runs as sentences for people; and the attempt that works beside another."""

import re
import time

from forgepool.orchestrator.decisions.reasons import count_of
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState


def host_sentence(event: e.Event) -> str | None:
    """Return one line for an event about a worker, a host or another run; None for any other."""
    match event:
        case e.WorkersMissing():
            return f"no worker listens to '{event.queue}': start one with `forgepool worker --queues {event.queue}`"
        case e.MessagesRefused():
            host = f"host {event.host}" if event.host else "a host that does not tell its name"
            return f"{host}: a message is refused: {event.why}"
        case e.PartRestarted():
            return f"{event.part} died and was restarted"
        case e.HostsLacking() | e.ModelsShut() | e.TasksHeld():
            return _waiting(event)
        case e.HostSuspended():
            return f"{event.host} is suspended: {event.why}"
        case e.HostReadmitted():
            return f"{event.host} works again, and gets messages again"
        case e.HostMismatched():
            older = "an older" if event.protocol < event.own else "a newer"
            return (
                f"{event.host} has {older} version of Forgepool (it reads messages of protocol {event.protocol}, and "
                f"this run writes {event.own}) and gets none: install this version there and start its worker again"
            )
        case e.TaskPassedOn():
            return f"{event.task}: {event.host} cannot do it: {event.why}; another host tries it (attempt not counted)"
        case _:
            return None


def _waiting(event: e.HostsLacking | e.ModelsShut | e.TasksHeld) -> str:
    match event:
        case e.HostsLacking():
            return _lacking(event)
        case e.ModelsShut():
            return _shut(event)
        case e.TasksHeld():
            return _held(event)


def clock(at: float, now: float) -> str:
    """Return the time of day, with its date unless it is within twelve hours."""
    near = abs(at - now) < 12 * 3600
    return time.strftime("%H:%M" if near else "%Y-%m-%d %H:%M", time.localtime(at))


def _shut(event: e.ModelsShut) -> str:
    by_end: dict[str, list[str]] = {}
    for task, until in event.tasks.items():
        if until > event.at:
            by_end.setdefault(clock(until, event.at), []).append(f"'{task}'")
    if not by_end:
        return "models may be asked again for all waiting tasks"
    return "; ".join(
        f"tasks such as {', '.join(tasks[:3])} wait until {end}: none of their models may be asked before"
        for end, tasks in by_end.items()
    )


def _held(event: e.TasksHeld) -> str:
    if not event.tasks:
        return "no task waits for another run any more"
    by_run: dict[tuple[str, str], list[str]] = {}
    for task, by in event.tasks.items():
        by_run.setdefault(by, []).append(task)
    return "; ".join(
        f"{_some(tasks)} for run {run}, which is at work on {path}" for (run, path), tasks in by_run.items()
    )


def _some(tasks: list[str]) -> str:
    more = f" and {count_of(len(tasks) - 3, 'more task')}" if len(tasks) > 3 else ""
    return f"{', '.join(tasks[:3])}{more} {'wait' if len(tasks) > 1 else 'waits'}"


def _lacking(event: e.HostsLacking) -> str:
    if not event.tasks:
        return "all waiting tasks have a host that can do them again"
    names = [f"'{one}'" for one in event.tasks]
    more = f" and {count_of(len(names) - 3, 'more task')}" if len(names) > 3 else ""
    missing = dict.fromkeys(words for each in event.tasks.values() for words in each)
    such = f"tasks such as {', '.join(names[:3])}{more}"
    return f"no present host can do {such}: missing is {'; and '.join(missing)}; other tasks continue"


_ON_A_TASK = re.compile(r"(?P<task>.+)\.(?P<attempt>\d+)(?:\.(?P<work>check|land|review)-\d+)?")
_WORK = {"check": "while checking it", "land": "while landing it", "review": "while reviewing it"}


def describe_lost(event: e.MessageLost, run: str) -> str:
    """`lib: worker vm/711 died; retrying (attempt not counted)`."""
    rest = event.message_id.removeprefix(f"{run}.")
    if rest == event.message_id:
        rest = rest.partition(".")[2]
    found = _ON_A_TASK.fullmatch(rest)
    if found is None:
        subject, doing = "the target", f" while working on {rest}"
    else:
        subject = found["task"] + ("" if found["attempt"] == "1" else f" (attempt {found['attempt']})")
        doing = f" {_WORK[found['work']]}" if found["work"] else ""
    holder = event.why.removesuffix(" took it and is gone")
    who = "a worker" if holder == "a worker" else f"worker {holder}"
    why = event.why if holder == event.why else f"{who} died{doing}"
    return f"{subject}: {why}; retrying (attempt not counted)"


def race_words(state: RunState, task: TaskState) -> str:
    """Return how the attempt stands that races the one in front; empty without one."""
    racer = state.racers.get(task.id)
    if racer is None:
        return ""
    where = f"works on {racer.holder}" if racer.holder else "is not taken yet"
    return f"attempt {racer.attempt} races it, and {where if racer.message is not None else 'has a candidate'}"
