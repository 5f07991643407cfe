"""`forgepool queue serve`, and `protect`, which lets only the queue move a branch."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from forgepool.orchestrator.cli.output.progress import event_style
from forgepool.orchestrator.cli.output.say import complain, printable, say, say_json
from forgepool.orchestrator.cli.queue import control
from forgepool.orchestrator.cli.queue.submit import explain, status, submit
from forgepool.orchestrator.cli.run.options import trials_of
from forgepool.orchestrator.cli.run.run import Broker, Sandbox, Trials, listen_to_ctrl_c, listen_to_run, settings_with
from forgepool.orchestrator.decisions.plan_index import PeoplesReview
from forgepool.orchestrator.journal.queue_rules import BadFreeze, GateRules, refuse_endless
from forgepool.orchestrator.journal.store import Recorded
from forgepool.orchestrator.launch.embedded import prepare_host
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
from forgepool.workers.queue.broker import CHECKS, LANDINGS
from forgepool.worktrees.errors import UserError
from forgepool.worktrees.hub.pre_receive import CannotProtect
from forgepool.worktrees.hub.protect import Protection, protection, unprotect
from forgepool.worktrees.hub.protect import protect as guard

Words = list[str] | None


def register(queue: typer.Typer, *, hidden: bool = False) -> None:
    for command in (serve, submit, status, explain, protect):
        queue.command(hidden=hidden)(command)
    control.register(queue, hidden=hidden)


def serve(
    repo: Annotated[str, typer.Option(metavar="HUB", help="Path or URL of the repository the target lives in.")] = ".",
    target: Annotated[
        Words, typer.Option(metavar="BRANCH", help="The queue's branch; repeatable. Default: main.")
    ] = None,
    trials: Trials = "auto",
    people: Annotated[
        PeoplesReview, typer.Option(help="Review that a person's branch needs in addition to passing checks.")
    ] = "none",
    freeze: Annotated[
        Words,
        typer.Option(
            metavar="FROM - TO",
            help='Only hotfixes land then, such as "fri 16:00 - mon 08:00"; repeatable.',
        ),
    ] = None,
    freeze_zone: Annotated[
        str, typer.Option(metavar="ZONE", help="Time zone of --freeze; default: this machine's.")
    ] = "",
    most_of_one: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Most entries of one submitter tested at once while others wait."),
    ] = None,
    broker: Broker = None,
    sandbox: Sandbox = None,
    http: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve the queue's HTTP API at this address.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the API's token; default: FORGEPOOL_GATE_API_TOKEN.")
    ] = None,
    forge: Annotated[
        str | None,
        typer.Option(metavar="KIND:NAME", help="Queue the changes of github:OWNER/REPO or gitlab:GROUP/NAME."),
    ] = None,
    forge_url: Annotated[str | None, typer.Option(help="URL of the forge's API; default: the vendor's own.")] = None,
    forge_git: Annotated[
        str | None, typer.Option(help="URL where git fetches the changes; default: the forge's.")
    ] = None,
    label: Annotated[str, typer.Option(help="Label of the changes to queue.")] = LABEL,
    every: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="Time between two looks at the forge.")
    ] = EVERY_S,
) -> int:
    """
    Serve the merge queue of one or more branches of a repository until Ctrl-C: test each entry, and land or return it.

    The checks come from each branch's own forgepool.yaml. After a restart the queue continues where it stopped.
    """
    settings, targets = settings_with(broker, sandbox), target or ["main"]
    at_once = trials_of(trials, processors=os.cpu_count() or 1)
    seed = prepare_host(settings, (CHECKS, LANDINGS))
    _refuse_together(targets, {"--http": http, "--forge": forge})
    rules = _rules(freeze or (), freeze_zone, most_of_one)
    opened = posts(repo, targets, settings, _stays_shut)
    stands = [replace(one, people=people, trials=at_once, rules=rules) for one in opened]
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
    kept = keep(stands, settings, wishes=wishes, listener=told, left=partial(_left, targets), beside=beside, seed=seed)
    return max(2 if is_any_shut else 0, *(_close(one, wishes, alone=len(kept) == 1) for one in kept))


def _rules(freeze: Sequence[str], zone: str, most_of_one: int | None) -> GateRules:
    try:
        refuse_endless(tuple(freeze), zone)
    except BadFreeze as bad:
        raise CannotRun(str(bad)) from bad
    return GateRules(freezes=tuple(freeze), zone=zone, most_of_one=most_of_one)


def _refuse_together(targets: Sequence[str], serving_one: Mapping[str, str | None]) -> None:
    option = next((option for option, given in serving_one.items() if given is not None), None)
    if option is not None and len(targets) > 1:
        raise CannotRun(f"{option} works with one target, but {len(targets)} are given; serve each in its own process")


def _opening(targets: Sequence[str], hub: str) -> str:
    if len(targets) == 1:
        return f"the queue of {targets[0]} in {hub} is open; submit with: forgepool queue submit BRANCH"
    which = f"{', '.join(targets[:-1])} and {targets[-1]}"
    return f"the queues of {which} in {hub} are open; submit with: forgepool queue submit BRANCH --target TARGET"


def _column(targets: Sequence[str]) -> int:
    """Return the width of a column with the targets' names; 0 for a single target."""
    return max(map(len, targets)) if len(targets) > 1 else 0


def _stays_shut(target: str, trouble: Exception) -> None:
    _note(f"the queue of {target} is not served (the others are): {_first_line(trouble)}; correct this and restart")


def _left(targets: Sequence[str], gate: RunState, trouble: Exception) -> None:
    if len(targets) > 1:
        _note(f"the queue of {gate.target} has stopped, the others go on: {_first_line(trouble)}")


def _first_line(trouble: Exception) -> str:
    said = str(trouble).strip().splitlines()
    return said[0] if said else type(trouble).__name__


def _close(kept: KeptRun, wishes: Wishes, *, alone: bool) -> int:
    """Say how a queue was left; return its exit status."""
    waiting = len(kept.state().train.line.entries)
    name = "the queue" if alone else f"the queue of {kept.options.target}"
    say(f"{name} has stopped; {waiting} in line continue when it is served again" if waiting else f"{name} has stopped")
    return 130 if wishes.stop and waiting else 0


def _note(said: str) -> None:
    complain(printable(said), 0)


def _tell(column: int, state: RunState, recorded: Sequence[Recorded]) -> None:
    """Print events, with a column for the target if there are several."""
    target = f"{state.target:<{column}}  " if column else ""
    for record in recorded:
        said = gate_sentence(record.event, state)
        if said is not None:
            stamp = time.strftime("%H:%M:%S", time.localtime(record.at))
            say(f"{stamp} {target}{printable(said)}", style=event_style(record.event))
        for line in telling_lines(record):
            say(f"         {' ' * len(target)}| {printable(line)}")


def protect(
    hub: Annotated[str, typer.Argument(metavar="HUB", help="Path or file:// URL of a repository on this host.")],
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="BRANCH", help="A branch that only the queue may move; repeatable."),
    ] = None,
    off: Annotated[
        bool, typer.Option("--off", help="Remove the protection: from --target, or from all branches.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """
    Make a hub refuse pushes to a branch that do not come from its merge queue.

    This installs a pre-receive hook in the hub; an existing hook is kept and still runs. Repeating it changes nothing.
    It does not stop people who can write the hub's own files. Exit status: 0 done, 2 wrong usage.
    """
    if not off and not target:
        raise UserError("no branch is named; give --target BRANCH, once for each branch of a merge queue")
    try:
        before = protection(hub)
        now = unprotect(hub, target or ()) if off else guard(hub, target or ())
    except CannotProtect as wrong:
        raise UserError(str(wrong)) from wrong
    if as_json:
        say_json(_protection_json(now, changed=now != before))
    else:
        _tell_protection(before, now)
    return 0


def _protection_json(now: Protection, *, changed: bool) -> dict[str, object]:
    return {
        "hub": str(now.hub),
        "targets": list(now.targets),
        "in_force": now.in_force,
        "hook": str(now.hook),
        "kept_hook": str(now.kept) if now.kept else None,
        "token_file": str(now.token) if now.targets else None,
        "changed": changed,
    }


def _tell_protection(before: Protection, now: Protection) -> None:
    if not now.targets:
        restored = f"; {now.hook} is as it was before" if before.targets else ""
        say(f"{now.hub}: no branch is protected{restored}")
        return
    say(f"{now.hub}: protected: {', '.join(now.targets)}{'' if now != before else ', as before'}")
    say(f"hook:   {now.hook}")
    if now.kept:
        say(f"        also runs: {now.kept}")
    say(f"token:  {now.token}; a queue on another host, or of another user, needs it in FORGEPOOL_GATE_TOKEN")
