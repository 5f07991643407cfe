"""`forgepool queue submit --wait`: lines as the entry goes on, and the exit status of its outcome."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from types import FrameType

from forgepool.orchestrator.cli.output.say import complain, printable, say, say_json
from forgepool.orchestrator.cli.output.terminal import out
from forgepool.orchestrator.merge_queue.remote.hub import HubQueue
from forgepool.orchestrator.merge_queue.remote.waiting import EntryProgress, follow_entry
from forgepool.orchestrator.merge_queue.submit import Submitted
from forgepool.orchestrator.reports.queue_board import BoardEntry

_STATUS = {"landed": 0, "returned": 1}
_INTERRUPTED = 130
_LOG_LINES = 12


def wait_for(queue: HubQueue, mine: Submitted, *, as_json: bool) -> int:
    """0 it has landed, 1 it was returned, 130 interrupted: then it stays in the queue."""
    ended: EntryProgress | None = None
    try:
        with _interruptible():
            for progress in follow_entry(queue, mine):
                _tell(f"{time.strftime('%H:%M:%S')} {mine.name}: {progress.line}", as_json=as_json)
                ended = progress
    except KeyboardInterrupt:
        todo = f"forgepool queue explain {mine.name}, or take it out: forgepool queue withdraw {mine.name}"
        return complain(f"stopped waiting; '{mine.name}' stays in the queue; see {todo}", _INTERRUPTED)
    assert ended is not None and ended.outcome is not None, "it is followed to its end"
    status = _STATUS[ended.outcome]
    if as_json:
        stand = ended.entry.as_json() if ended.entry is not None else {}
        answer = {**asdict(mine), **stand, "outcome": ended.outcome, "why": ended.line, "exit_status": status}
        say_json(answer)
    elif ended.entry is not None and ended.outcome == "returned":
        _tell_reasons(ended.entry)
    return status


def _tell_reasons(entry: BoardEntry) -> None:
    say(entry.explained)
    reason = entry.reasons[-1] if entry.reasons else {}
    for line in str(reason.get("log_tail", "")).strip().splitlines()[-_LOG_LINES:]:
        say(f"    | {line}")


def _tell(line: str, *, as_json: bool) -> None:
    if as_json:
        out(stderr=True).print(printable(line), markup=False)
    else:
        say(printable(line))


@contextmanager
def _interruptible() -> Iterator[None]:
    """A polite signal counts as Ctrl-C."""

    def note_interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = [(number, signal.signal(number, note_interrupt)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        yield
    finally:
        for number, former in before:
            signal.signal(number, former)
