"""`forgepool queue serve`, and what it is asked: `submit`, `status`, `explain`."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from forgepool.orchestrator.cli.output.progress import event_style
from forgepool.orchestrator.cli.output.say import complain, printable, say
from forgepool.orchestrator.cli.queue import control
from forgepool.orchestrator.cli.queue.submit import explain, status, submit
from forgepool.orchestrator.cli.run.run import Broker, Sandbox, listen_to_ctrl_c, listen_to_run, settings_with
from forgepool.orchestrator.decisions.plan_index import PeoplesReview
from forgepool.orchestrator.journal.queue_rules import BadFreeze, GateRules, refuse_endless
from forgepool.orchestrator.journal.store import Recorded
from forgepool.orchestrator.merge_queue.bot.service import EVERY_S, Connection, bot_beside
from forgepool.orchestrator.merge_queue.forges.protocol import LABEL
from forgepool.orchestrator.merge_queue.http_server import api_beside
from forgepool.orchestrator.merge_queue.serve.serve import Beside, posts
from forgepool.orchestrator.merge_queue.serve.serve import serve as keep
from forgepool.orchestrator.reports.event_text import telling_lines
from forgepool.orchestrator.reports.queue_board import gate_sentence
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.loop import Wishes
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.orchestrator.state.run import RunState

Words = list[str] | None


def register(queue: typer.Typer, *, hidden: bool = False) -> None:
    for command in (serve, submit, status, explain):
        queue.command(hidden=hidden)(command)
    control.register(queue, hidden=hidden)


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
