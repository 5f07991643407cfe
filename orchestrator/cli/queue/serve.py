"""`forgepool queue serve`, and what it is asked: `submit`, `status`, `explain`."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from forgepool.orchestrator.cli.output.live import event_style
from forgepool.orchestrator.cli.output.say import complain, printable, say, say_json
from forgepool.orchestrator.cli.output.terminal import print_table
from forgepool.orchestrator.cli.queue import requests
from forgepool.orchestrator.cli.queue.find_queue import Hub, Server, TokenFile, hub_queues, one_of, server_queue
from forgepool.orchestrator.cli.queue.requests import Entry, Json, Target
from forgepool.orchestrator.cli.queue.waiting import wait_for
from forgepool.orchestrator.cli.run.running import Broker, Sandbox, listen_to_ctrl_c, listen_to_run, settings_with
from forgepool.orchestrator.decisions.plan_index import PeoplesReview
from forgepool.orchestrator.decisions.queue.submissions import CLASSES
from forgepool.orchestrator.journal.queue_rules import BadFreeze, GateRules, refuse_endless
from forgepool.orchestrator.journal.store import Recorded, is_being_written
from forgepool.orchestrator.merge_queue.bot.service import EVERY_S, Connection, bot_beside
from forgepool.orchestrator.merge_queue.forges.protocol import LABEL
from forgepool.orchestrator.merge_queue.http.service import api_beside
from forgepool.orchestrator.merge_queue.lookup import find_entry, gates_called
from forgepool.orchestrator.merge_queue.remote.hub import HubQueue, explain_entry, show_board
from forgepool.orchestrator.merge_queue.serve.serve import Beside, posts
from forgepool.orchestrator.merge_queue.serve.serve import serve as keep
from forgepool.orchestrator.merge_queue.submit import Wish
from forgepool.orchestrator.merge_queue.submit import submit as give
from forgepool.orchestrator.reports.event_text import telling_lines
from forgepool.orchestrator.reports.queue_board import Board, board_of, entry_of
from forgepool.orchestrator.reports.queue_status import EntryStanding
from forgepool.orchestrator.reports.queue_text import gate_sentence
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.loop import Wishes
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.git.git import GitFailed, without_password

Words = list[str] | None
Shown = tuple[Board, str]


def register(queue: typer.Typer, *, hidden: bool = False) -> None:
    for command in (serve, submit, status, explain):
        queue.command(hidden=hidden)(command)
    requests.register(queue, hidden=hidden)


def serve(
    repo: Annotated[str, typer.Option(metavar="HUB", help="Path or URL of the repository the target lives in.")] = ".",
    target: Annotated[
        Words, typer.Option(metavar="BRANCH", help="The queue's branch; may be given again. Default: main.")
    ] = None,
    trials: Annotated[
        int, typer.Option(min=1, max=64, help="Batches of entries tested at once on this machine, of all branches.")
    ] = 1,
    people: Annotated[PeoplesReview, typer.Option(help="What a person's branch needs besides green checks.")] = "none",
    freeze: Annotated[
        Words,
        typer.Option(
            metavar="FROM - TO",
            help='Nothing but hotfixes lands then, as in "fri 16:00 - mon 08:00"; may be given again.',
        ),
    ] = None,
    freeze_zone: Annotated[
        str, typer.Option(metavar="ZONE", help="The time zone of --freeze; default: the machine's.")
    ] = "",
    most_of_one: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Entries of one submitter tested at once while others wait.")
    ] = None,
    broker: Broker = None,
    sandbox: Sandbox = None,
    http: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Serve the queue's HTTP API there.")] = None,
    token_file: Annotated[Path | None, typer.Option(help="The API's token; default: FORGEPOOL_GATE_API_TOKEN.")] = None,
    forge: Annotated[
        str | None, typer.Option(metavar="KIND:NAME", help="Take changes in of github:OWNER/REPO or gitlab:GROUP/NAME.")
    ] = None,
    forge_url: Annotated[
        str | None, typer.Option(help="Address of the forge's API; default: the vendor's own.")
    ] = None,
    forge_git: Annotated[str | None, typer.Option(help="Where git fetches its changes; default: at the forge.")] = None,
    label: Annotated[str, typer.Option(help="Which changes of the forge are taken in.")] = LABEL,
    every: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Between looks at the forge.")] = EVERY_S,
) -> int:
    """
    Serve the merge queue of a branch, or of several of one repository, until Ctrl-C: what is submitted is tested, and
    lands or is returned.

    Each branch's own forgepool.yaml says what is checked. Killed and started again, it goes on where it was.
    """
    settings, targets = settings_with(broker, sandbox), target or ["main"]
    _refuse_together(targets, {"--http": http, "--forge": forge})
    rules = _rules(freeze or (), freeze_zone, most_of_one)
    opened = posts(repo, targets, settings, _stays_shut)
    stands = [replace(one, people=people, trials=trials, rules=rules) for one in opened]
    is_any_shut, targets = len(stands) < len(targets), [one.target for one in stands]
    beside: list[Beside] = []
    if forge is not None:
        wanted = Connection(forge=forge, url=forge_url, commits=forge_git, label=label, every_s=every)
        beside.append(bot_beside(wanted, targets[0], settings, _note))
    if http is not None:
        beside.append(api_beside(http, token_file, targets[0], settings, _note))
    wishes = listen_to_ctrl_c()
    say(_opening(targets, stands[0].hub.facts.url))
    told = listen_to_run(partial(_tell, _column(targets)), wishes, settings)
    kept = keep(stands, settings, wishes=wishes, listener=told, left=partial(_left, targets), beside=beside)
    return max(2 if is_any_shut else 0, *(_close(one, wishes, alone=len(kept) == 1) for one in kept))


def _rules(freeze: Sequence[str], zone: str, most_of_one: int | None) -> GateRules:
    """As they are given, where they can be read."""
    try:
        refuse_endless(tuple(freeze), zone)
    except BadFreeze as bad:
        raise CannotRun(str(bad)) from bad
    return GateRules(freezes=tuple(freeze), zone=zone, most_of_one=most_of_one)


def _refuse_together(targets: Sequence[str], serving_one: Mapping[str, str | None]) -> None:
    option = next((option for option, given in serving_one.items() if given is not None), None)
    if option is not None and len(targets) > 1:
        raise CannotRun(f"{option} serves one target, and {len(targets)} are given; keep each by a process of its own")


def _opening(targets: Sequence[str], hub: str) -> str:
    if len(targets) == 1:
        return f"the queue of {targets[0]} in {hub} is open; submit with: forgepool queue submit BRANCH"
    which = f"{', '.join(targets[:-1])} and {targets[-1]}"
    return f"the queues of {which} in {hub} are open; submit with: forgepool queue submit BRANCH --target TARGET"


def _column(targets: Sequence[str]) -> int:
    """How wide the targets' names are, where there are several to be told apart."""
    return max(map(len, targets)) if len(targets) > 1 else 0


def _stays_shut(target: str, trouble: Exception) -> None:
    _note(f"the queue of {target} is not served, the others are; {_first_line(trouble)}; correct it, then start again")


def _left(targets: Sequence[str], gate: RunState, trouble: Exception) -> None:
    if len(targets) > 1:
        _note(f"the queue of {gate.target} has stopped, the others go on; {_first_line(trouble)}")


def _first_line(trouble: Exception) -> str:
    said = str(trouble).strip().splitlines()
    return said[0] if said else type(trouble).__name__


def _close(kept: KeptRun, wishes: Wishes, *, alone: bool) -> int:
    """Says how a gate is left; its exit status."""
    waiting = len(kept.state().train.line.entries)
    name = "the queue" if alone else f"the queue of {kept.options.target}"
    say(f"{name} has stopped; {waiting} in line go on when it is served again" if waiting else f"{name} has stopped")
    return 130 if wishes.stop and waiting else 0


def _note(said: str) -> None:
    complain(printable(said), 0)


def _tell(column: int, state: RunState, recorded: Sequence[Recorded]) -> None:
    """With a column of the target's name where there are several."""
    target = f"{state.target:<{column}}  " if column else ""
    for one in recorded:
        said = gate_sentence(one.event, state)
        if said is not None:
            stamp = time.strftime("%H:%M:%S", time.localtime(one.at))
            say(f"{stamp} {target}{printable(said)}", style=event_style(one.event))
        for line in telling_lines(one):
            say(f"         {' ' * len(target)}| {printable(line)}")


def submit(
    what: Annotated[str, typer.Argument(metavar="BRANCH|COMMIT", help="What to submit.")],
    repo: Annotated[str, typer.Option(help="The clone that has the branch.")] = ".",
    hub: Annotated[
        str | None, typer.Option(help="The repository to submit to; default: the clone's origin, or itself.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The queue's branch; default: the repository's default branch.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="What to call the entry; default: the branch's name.")] = None,
    priority: Annotated[str, typer.Option(metavar="CLASS", help=f"{', '.join(CLASSES)}.")] = "normal",
    depends_on: Annotated[
        Words, typer.Option(metavar="ENTRY", help="An entry that has to land first; may be given again.")
    ] = None,
    landing: Annotated[
        str | None, typer.Option(metavar="STYLE", help="merge, squash or rebase; default: merge.")
    ] = None,
    by: Annotated[str | None, typer.Option(help="Who submits; default: the commit's author.")] = None,
    agent: Annotated[str | None, typer.Option(help="The agent that wrote it, if one did: it is reviewed then.")] = None,
    family: Annotated[Words, typer.Option(help="Family of a model that wrote it; may be given again.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Follow it until it has landed or was returned; Ctrl-C leaves it queued.")
    ] = False,
    as_json: Json = False,
) -> int:
    """
    Submit a branch or commit to the queue. It is one push: once this returns, it is safe, whether a queue is being
    served or not.

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
        say(f"{silence[:1].upper()}{silence[1:]}: '{done.name}' is queued, and will be picked up when one starts.")
    else:
        say(f"how it stands: forgepool queue explain {done.name}")
    return 0


def _silence(queue: HubQueue) -> str:
    """Empty also where the hub does not say: what was submitted is safe."""
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
    """Show the entries in line, in their order, then those that ended last; of one queue or of all."""
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
    """Each queue's board, and a sentence where it is not being served."""
    settings = Settings()
    if server is not None:
        return [(server_queue(server, token_file, settings).board(), "")]
    queues = hub_queues(hub, target, settings)
    if queues is not None:
        return [show_board(one) for one in queues]
    now = time.time()
    kept = gates_called(settings, target)
    return [(board_of(one.state(), now, one.options.trials), _unserved(one)) for one in kept]


def _unserved(kept: KeptRun) -> str:
    return "" if is_being_written(kept.folder) else f"no queue is serving {kept.options.target} from this home now"


def _tell_status(board: Board, silence: str) -> None:
    say(f"{board.target} of {board.hub} at {board.tip[:12]}, {board.in_line} in line")
    if silence:
        say(f"{silence[:1].upper()}{silence[1:]}; what is submitted waits in the hub until one starts.")
    for line in (board.overload, board.frozen):
        if line:
            say(line)
    if why := board.paused or board.shut:
        say(f"the queue is paused: {why}; open it with: forgepool queue resume --target {board.target}")
    rows = [_row(one.stand) for one in board.entries]
    print_table(("entry", "state", "rev", "class", "by", "why"), rows[:_MOST_ROWS])
    if len(rows) > _MOST_ROWS:
        say(f"and {len(rows) - _MOST_ROWS} more, which --json has")


_MOST_ROWS = 60


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
    """Say in one paragraph why an entry waits or was returned, with the command that shows it again."""
    settings = Settings()
    if server is not None:
        told = server_queue(server, token_file, settings).entry(entry).entries[0]
    elif (queues := hub_queues(hub, target, settings)) is not None:
        told = explain_entry(one_of(queues, entry), entry)
    else:
        one = find_entry(settings, entry, target)
        told = entry_of(one.state, one.name, time.time())
    if as_json:
        say_json(told.as_json())
    else:
        say(told.explained)
    return 0
