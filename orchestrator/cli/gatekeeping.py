"""`forgepool gate serve`, and what it is asked: `submit`, `status`, `explain`."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli import gatewords
from orchestrator.cli.gatewords import Entry, Gate, Json
from orchestrator.cli.running import Broker, Sandbox, heard, listen_to_ctrl_c, settings_with
from orchestrator.cli.say import complain, out, printable, say, say_json, table
from orchestrator.forges.protocol import LABEL
from orchestrator.gatekeeper.api.service import api_beside
from orchestrator.gatekeeper.bot.service import EVERY_S, Connection, bot_beside
from orchestrator.gatekeeper.course import PeoplesReview
from orchestrator.gatekeeper.explaining import EntryStanding, explained, frozen_words, overload, standing_of, standings
from orchestrator.gatekeeper.freezes import BadFreeze, refuse_endless
from orchestrator.gatekeeper.naming import found, gates_called
from orchestrator.gatekeeper.rules import GateRules
from orchestrator.gatekeeper.serving import Beside, posts
from orchestrator.gatekeeper.serving import serve as keep
from orchestrator.gatekeeper.submissions import CLASSES
from orchestrator.gatekeeper.submitting import Wish
from orchestrator.gatekeeper.submitting import submit as give
from orchestrator.gatekeeper.telling import gate_sentence
from orchestrator.hub import CannotRun
from orchestrator.journal import Recorded
from orchestrator.loop import Wishes
from orchestrator.runs import KeptRun
from orchestrator.state import State
from orchestrator.telling import telling_line
from workers.settings import Settings

Words = list[str] | None


def register(gate: typer.Typer) -> None:
    for command in (serve, submit, status, explain):
        gate.command()(command)
    gatewords.register(gate)


def serve(
    repo: Annotated[str, typer.Option(metavar="HUB", help="Path or URL of the repository the target lives in.")] = ".",
    target: Annotated[
        Words, typer.Option(metavar="BRANCH", help="The branch to be gated; may be given again. Default: main.")
    ] = None,
    trials: Annotated[
        int, typer.Option(min=1, max=64, help="Cars whose checks run at once on this machine, of all branches.")
    ] = 1,
    people: Annotated[
        PeoplesReview, typer.Option(help="What entries that no model wrote want besides green checks.")
    ] = "none",
    freeze: Annotated[
        Words,
        typer.Option(
            metavar="FROM - TO",
            help='Nothing but hotfixes lands then, as in "fri 16:00 - mon 08:00"; may be given again.',
        ),
    ] = None,
    freeze_zone: Annotated[str, typer.Option(metavar="ZONE", help="Of --freeze; default: the machine's.")] = "",
    most_of_one: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Entries of one submitter tested at once while others wait.")
    ] = None,
    broker: Broker = None,
    sandbox: Sandbox = None,
    http: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Serve the gate's HTTP API there.")] = None,
    token_file: Annotated[Path | None, typer.Option(help="The API's token; default: FORGEPOOL_GATE_API_TOKEN.")] = None,
    forge: Annotated[
        str | None, typer.Option(metavar="KIND:NAME", help="Take changes in of github:OWNER/REPO or gitlab:GROUP/NAME.")
    ] = None,
    forge_url: Annotated[str | None, typer.Option(help="Of the forge's API; default: the vendor's own.")] = None,
    forge_git: Annotated[str | None, typer.Option(help="Where git fetches its changes; default: at the forge.")] = None,
    label: Annotated[str, typer.Option(help="Which changes of the forge are taken in.")] = LABEL,
    every: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Between looks at the forge.")] = EVERY_S,
) -> int:
    """
    Keep the gate in front of a branch, or of several of one repository, until Ctrl-C: what is submitted is tested, and
    lands or is returned.

    What is checked is what each branch's own forgepool.yaml says. Killed and started again, it goes on where it was.
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
    told = heard(partial(_tell, _column(targets)), wishes, settings)
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
        return f"the gate of {targets[0]} in {hub} is open; to be let in: forgepool gate submit BRANCH"
    which = f"{', '.join(targets[:-1])} and {targets[-1]}"
    return f"the gates of {which} in {hub} are open; to be let in: forgepool gate submit BRANCH --target TARGET"


def _column(targets: Sequence[str]) -> int:
    """How wide the targets' names are, where there are several to be told apart."""
    return max(map(len, targets)) if len(targets) > 1 else 0


def _stays_shut(target: str, trouble: Exception) -> None:
    _note(f"the gate of {target} stays shut, the others are kept; {_first_line(trouble)}; mend it, then serve anew")


def _left(targets: Sequence[str], gate: State, trouble: Exception) -> None:
    if len(targets) > 1:
        _note(f"the gate of {gate.target} is left, the others go on; {_first_line(trouble)}")


def _first_line(trouble: Exception) -> str:
    said = str(trouble).strip().splitlines()
    return said[0] if said else type(trouble).__name__


def _close(kept: KeptRun, wishes: Wishes, *, alone: bool) -> int:
    """Says how a gate is left; its exit status."""
    waiting = len(kept.state().train.line.entries)
    name = "the gate" if alone else f"the gate of {kept.options.target}"
    say(f"{name} is left; {waiting} in line go on when it is kept again" if waiting else f"{name} is left")
    return 130 if wishes.stop and waiting else 0


def _note(said: str) -> None:
    complain(printable(said), 0)


def _tell(column: int, state: State, recorded: Sequence[Recorded]) -> None:
    """With a column of the target's name where there are several."""
    target = f"{state.target:<{column}}  " if column else ""
    for one in recorded:
        said = gate_sentence(one.event, run=state.run)
        if said is not None:
            say(f"{time.strftime('%H:%M:%S', time.localtime(one.at))} {target}{printable(said)}")
        if (more := telling_line(one)) != "":
            say(f"         {' ' * len(target)}| {printable(more)}")


def submit(
    what: Annotated[str, typer.Argument(metavar="BRANCH|COMMIT", help="What is to be let in.")],
    repo: Annotated[str, typer.Option(help="The clone that has it.")] = ".",
    hub: Annotated[str | None, typer.Option(help="Default: the clone's origin, or itself.")] = None,
    target: Annotated[str | None, typer.Option(help="Default: the hub's default branch.")] = None,
    name: Annotated[str | None, typer.Option(help="Of the entry; default: the branch's.")] = None,
    priority: Annotated[str, typer.Option(metavar="CLASS", help=f"{', '.join(CLASSES)}.")] = "normal",
    depends_on: Annotated[Words, typer.Option(metavar="ENTRY", help="Has to land before; may be given again.")] = None,
    landing: Annotated[
        str | None, typer.Option(metavar="STYLE", help="merge, squash or rebase; default: merge.")
    ] = None,
    by: Annotated[str | None, typer.Option(help="Who submits; default: the commit's author.")] = None,
    agent: Annotated[str | None, typer.Option(help="The agent that wrote it, if one did: it is reviewed then.")] = None,
    family: Annotated[Words, typer.Option(help="Family of a model that wrote it; may be given again.")] = None,
    as_json: Json = False,
) -> int:
    """Give a branch or commit to the gate: one push, which is safe once this returns, whether the gate is up or not."""
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
    done = give(wish, Settings())
    if as_json:
        say_json(asdict(done))
    else:
        say(f"'{done.name}' ({done.commit[:12]}) is submitted to {done.target} of {done.hub}")
        say(f"how it stands: forgepool gate explain {done.name}")
    return 0


def status(gate: Gate = None, as_json: Json = False) -> int:
    """How the entries stand: those in line in its order, then the latest of what has ended; of one gate or of all."""
    kept = gates_called(Settings(), gate)
    if as_json:
        told = [_status(one) for one in kept]
        say_json(told[0] if len(told) == 1 else {"gates": told})
        return 0
    for at, one in enumerate(kept):
        if at:
            say("")
        _tell_status(one)
    return 0


def _status(kept: KeptRun) -> dict[str, object]:
    state, now = kept.state(), time.time()
    return {
        "gate": state.run,
        "target": state.target,
        "tip": state.tip,
        "paused": state.paused,
        "shut": state.halted,
        "frozen_until": state.rules.frozen_until(now),
        "overload": overload(state, now, kept.options.trials),
        "entries": [asdict(one) for one in standings(state, now)],
    }


def _tell_status(kept: KeptRun) -> None:
    state, now = kept.state(), time.time()
    rows = standings(state, now)
    say(f"{state.target} of {state.hub} at {state.tip[:12]}, {len(state.train.line.entries)} in line")
    if (warning := overload(state, now, kept.options.trials)) is not None:
        say(warning)
    if (frozen := frozen_words(state, now)) is not None:
        say(frozen)
    for word, why in (("paused", state.paused), ("shut", state.halted)):
        if why:
            say(f"the gate is {word}: {why}; open it with: forgepool gate resume --gate {state.target}")
    out().print(table(("entry", "state", "rev", "class", "by", "why"), [_row(one) for one in rows[:_MOST_ROWS]]))
    if len(rows) > _MOST_ROWS:
        say(f"and {len(rows) - _MOST_ROWS} more, which --json has")


_MOST_ROWS = 60


def _row(one: EntryStanding) -> tuple[str, ...]:
    return (one.entry, one.state, str(one.revision), one.klass, one.by, one.why)


def explain(entry: Entry, gate: Gate = None, as_json: Json = False) -> int:
    """Say in one paragraph why an entry waits or was returned, with the command that shows it again."""
    one = found(Settings(), entry, gate)
    state, task = one.state, one.state.tasks[one.name]
    if as_json:
        reasons = [one.model_dump(mode="json") for one in task.reasons]
        say_json({**asdict(standing_of(state, task, time.time())), "reasons": reasons})
    else:
        say(explained(state, task, time.time()))
    return 0
