"""`forgepool queue submit`, with `--wait`; `status` and `explain`."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from forgepool.orchestrator.cli.output.say import complain, printable, say, say_json
from forgepool.orchestrator.cli.output.terminal import out, print_table
from forgepool.orchestrator.cli.queue.control import Entry, Hub, Json, Server, Target, TokenFile
from forgepool.orchestrator.decisions.queue.submissions import CLASSES
from forgepool.orchestrator.journal.store import is_being_written
from forgepool.orchestrator.merge_queue.hub_queue import HubQueue, explain_entry, show_board
from forgepool.orchestrator.merge_queue.lookup import find_entry, find_queues, hub_queues, one_of, server_queue
from forgepool.orchestrator.merge_queue.submit import EntryProgress, Submitted, Wish, follow_entry
from forgepool.orchestrator.merge_queue.submit import submit as give
from forgepool.orchestrator.reports.queue_board import Board, BoardEntry, board_of, entry_of
from forgepool.orchestrator.reports.queue_status import EntryStanding
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.workers.schema.error_lines import without_escapes
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.git.git import GitFailed, without_password

_STATUS = {"landed": 0, "returned": 1}
_INTERRUPTED = 130
_LOG_LINES = 12

_MOST_ROWS = 60
_MOST_REFUSALS = 5


def wait_for(queue: HubQueue, mine: Submitted, *, as_json: bool) -> int:
    """Follow the entry; return 0 if it landed, 1 if it was returned, 130 if interrupted: then it stays queued."""
    ended: EntryProgress | None = None
    try:
        with _interruptible():
            for progress in follow_entry(queue, mine):
                _tell(f"{time.strftime('%H:%M:%S')} {mine.name}: {progress.line}", as_json=as_json)
                ended = progress
    except KeyboardInterrupt:
        todo = f"forgepool queue explain {mine.name}; to withdraw it: forgepool queue withdraw {mine.name}"
        return complain(f"stopped waiting; '{mine.name}' stays in the queue; see: {todo}", _INTERRUPTED)
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
    """Show the end of the log, which lies on another host, and below it what to do."""
    reason = entry.reasons[-1] if entry.reasons else {}
    log = without_escapes(str(reason.get("log_tail", "")))
    for line in log.strip().splitlines()[-_LOG_LINES:]:
        say(f"    | {printable(line)}")
    say(entry.explained)


def _tell(line: str, *, as_json: bool) -> None:
    if as_json:
        out(stderr=True).print(printable(line), markup=False)
    else:
        say(printable(line))


@contextmanager
def _interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt for SIGTERM too."""

    def note_interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = [(number, signal.signal(number, note_interrupt)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        yield
    finally:
        for number, former in before:
            signal.signal(number, former)


Words = list[str] | None
Shown = tuple[Board, str]


def submit(
    what: Annotated[str, typer.Argument(metavar="BRANCH|COMMIT", help="The branch or commit to submit.")],
    repo: Annotated[str, typer.Option(help="The clone with the branch.")] = ".",
    hub: Annotated[
        str | None, typer.Option(help="The repository to submit to; default: the clone's origin, or itself.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The queue's branch; default: the repository's default branch.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the entry; default: the branch's name.")] = None,
    priority: Annotated[str, typer.Option(metavar="CLASS", help=f"{', '.join(CLASSES)}.")] = "normal",
    depends_on: Annotated[
        Words, typer.Option(metavar="ENTRY", help="An entry that must land first; repeatable.")
    ] = None,
    landing: Annotated[
        str | None, typer.Option(metavar="STYLE", help="merge, squash or rebase; default: merge.")
    ] = None,
    by: Annotated[str | None, typer.Option(help="Who submits; default: the commit's author.")] = None,
    agent: Annotated[str | None, typer.Option(help="The agent that wrote it, if any; it is then reviewed.")] = None,
    family: Annotated[Words, typer.Option(help="Family of a model that wrote it; repeatable.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until it has landed or was returned; Ctrl-C leaves it queued.")
    ] = False,
    as_json: Json = False,
) -> int:
    """
    Submit a branch or commit to the queue by one push; once this returns, the submission is safe, even if no queue is
    running.

    With --wait the exit status is the outcome's: 0 landed, 1 returned, 3 infrastructure, 130 interrupted.
    """
    wish = Wish(
        what=what,
        repo=repo,
        hub=hub,
        target=target,
        name=name,
        klass=priority,
        needs=tuple(depends_on or ()),
        by=by,
        style=landing,
        agent=agent,
        family=tuple(family or ()),
    )
    mirror, done = give(wish, Settings())
    queue = HubQueue(mirror, done.target)
    if not as_json:
        say(f"'{done.name}' ({done.commit[:12]}) is submitted to {done.target} of {without_password(done.hub)}")
    if wait:
        return wait_for(queue, done, as_json=as_json)
    silence = _silence(queue)
    if as_json:
        say_json({**asdict(done), "silence": silence})
    elif silence:
        say(f"{silence[:1].upper()}{silence[1:]}: '{done.name}' is queued and will be picked up when one starts.")
    else:
        say(f"see how it stands: forgepool queue explain {done.name}")
    return 0


def _silence(queue: HubQueue) -> str:
    """
    Return a sentence if no queue is active; empty too where the hub does not answer, since the submission is safe.
    """
    try:
        return queue.look().silence
    except GitFailed:
        return ""


def status(
    target: Target = None,
    hub: Hub = None,
    server: Server = None,
    token_file: TokenFile = None,
    as_json: Json = False,
) -> int:
    """Show queued entries in order, then the ones that ended last; of one queue or of all."""
    shown = _boards(target, hub, server, token_file)
    if as_json:
        told = [{**board.status_json(), "silence": silence} for board, silence in shown]
        say_json(told[0] if len(told) == 1 else {"gates": told})
        return 0
    for at, (board, silence) in enumerate(shown):
        if at:
            say("")
        _tell_status(board, silence)
    return 0


def _boards(target: str | None, hub: str | None, server: str | None, token_file: Path | None) -> list[Shown]:
    """Return each queue's board, and a sentence if it is not being served."""
    settings = Settings()
    if server is not None:
        return [(server_queue(server, token_file, settings).board(), "")]
    queues = hub_queues(hub, target, settings)
    if queues is not None:
        return [show_board(queue) for queue in queues]
    now = time.time()
    kept = find_queues(settings, target, hub)
    return [(board_of(one.state(), now, one.options.trials), _unserved(one)) for one in kept]


def _unserved(kept: KeptRun) -> str:
    return "" if is_being_written(kept.folder) else f"no queue is serving {kept.options.target} from this home now"


def _tell_status(board: Board, silence: str) -> None:
    untaken = sum(one.stand.state == "submitted" for one in board.entries)
    more = f", {untaken} submitted" if untaken else ""
    say(f"{board.target} of {board.hub} at {board.tip[:12]}, {board.in_line} queued{more}")
    if silence:
        say(f"{silence[:1].upper()}{silence[1:]}; submissions wait in the hub until one starts.")
    for line in (board.overload, board.frozen):
        if line:
            say(line)
    if why := board.paused or board.shut:
        say(f"the queue is paused: {why}; resume it with: forgepool queue resume --target {board.target}")
    rows = [_row(entry.stand) for entry in board.entries]
    print_table(("entry", "state", "rev", "class", "by", "why"), rows[:_MOST_ROWS])
    if len(rows) > _MOST_ROWS:
        say(f"and {len(rows) - _MOST_ROWS} more; --json lists all")
    for refusal in board.refused[-_MOST_REFUSALS:]:
        say(f"not accepted: {refusal.name} ({refusal.commit[:12]}): {refusal.why}")


def _row(one: EntryStanding) -> tuple[str, ...]:
    return (one.entry, one.state, str(one.revision), one.klass, one.by, one.why)


def explain(
    entry: Entry,
    target: Target = None,
    hub: Hub = None,
    server: Server = None,
    token_file: TokenFile = None,
    as_json: Json = False,
) -> int:
    """Explain in one paragraph why an entry waits or was returned, and how to reproduce it."""
    settings = Settings()
    if server is not None:
        told = server_queue(server, token_file, settings).entry(entry).entries[0]
    elif (queues := hub_queues(hub, target, settings)) is not None:
        told = explain_entry(one_of(queues, entry), entry)
    else:
        one = find_entry(settings, entry, target, hub)
        told = entry_of(one.state, one.name, time.time())
    if as_json:
        say_json(told.as_json())
    else:
        say(told.explained)
    return 0
