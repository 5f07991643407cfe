"""`forgepool gate serve`, and what is said to a gate: `submit`, `status`, `explain`, and a person's words."""

import getpass
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from orchestrator import inbox, runs
from orchestrator.cli.granting import Globs, Rules, granting
from orchestrator.cli.running import Broker, Sandbox, heard, listen_to_ctrl_c, settings_with
from orchestrator.cli.say import complain, out, printable, say, say_json, table
from orchestrator.events import Event
from orchestrator.forges.protocol import LABEL
from orchestrator.gatekeeper.api.service import api_beside
from orchestrator.gatekeeper.bot.service import EVERY_S, Connection, bot_beside
from orchestrator.gatekeeper.course import PeoplesReview
from orchestrator.gatekeeper.explaining import EntryStanding, explained, overload, refusal, standing_of, standings
from orchestrator.gatekeeper.intake import asked
from orchestrator.gatekeeper.serving import Beside, posted, with_people
from orchestrator.gatekeeper.serving import serve as keep
from orchestrator.gatekeeper.submissions import CLASSES, entry_name
from orchestrator.gatekeeper.submitting import Wish
from orchestrator.gatekeeper.submitting import submit as give
from orchestrator.gatekeeper.telling import gate_sentence
from orchestrator.hub import CannotRun
from orchestrator.inbox import Request
from orchestrator.journal import JournalBusy, Recorded
from orchestrator.runs import KeptRun
from orchestrator.state import State
from orchestrator.telling import telling_line
from workers.settings import Settings

Gate = Annotated[str | None, typer.Option("--gate", metavar="NAME", help="Which gate, where this home keeps several.")]
Entry = Annotated[str, typer.Argument(help="The entry's name.")]
Json = Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")]
Words = list[str] | None


def register(gate: typer.Typer) -> None:
    for command in (serve, submit, status, explain, withdraw, pause, retry, grant, hold, release, priority):
        gate.command()(command)
    gate.command("resume")(resume)


def serve(
    repo: Annotated[str, typer.Option(metavar="HUB", help="Path or URL of the repository the target lives in.")] = ".",
    target: Annotated[str, typer.Option(metavar="BRANCH", help="The branch to be gated.")] = "main",
    trials: Annotated[int, typer.Option(min=1, max=64, help="Cars whose checks run at once on this machine.")] = 1,
    people: Annotated[
        PeoplesReview, typer.Option(help="What entries that no model wrote want besides green checks.")
    ] = "none",
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
    Keep the gate in front of a branch until Ctrl-C: what is submitted is tested, and lands or is returned.

    What is checked is what the branch's own forgepool.yaml says. Killed and started again, it goes on where it was.
    """
    settings = settings_with(broker, sandbox)
    post = with_people(posted(repo, target, settings), people, trials)
    beside: list[Beside] = []
    if forge is not None:
        wanted = Connection(forge=forge, url=forge_url, commits=forge_git, label=label, every_s=every)
        beside.append(bot_beside(wanted, target, settings, _note))
    if http is not None:
        beside.append(api_beside(http, token_file, target, settings, _note))
    wishes = listen_to_ctrl_c()
    say(f"the gate of {target} in {post.hub.facts.url} is open; to be let in: forgepool gate submit BRANCH")
    kept, _ = keep(post, settings, wishes=wishes, listener=heard(_tell, wishes, settings), beside=beside)
    waiting = len(kept.state().train.line.entries)
    say(f"the gate is left; {waiting} in line go on when it is kept again" if waiting else "the gate is left")
    return 130 if wishes.stop and waiting else 0


def _note(said: str) -> None:
    complain(printable(said), 0)


def _tell(state: State, recorded: Sequence[Recorded]) -> None:
    for one in recorded:
        said = gate_sentence(one.event, run=state.run)
        if said is not None:
            say(f"{time.strftime('%H:%M:%S', time.localtime(one.at))} {printable(said)}")
        if (more := telling_line(one)) != "":
            say(f"         | {printable(more)}")


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
    """How the entries stand: those in line in its order, then the latest of what has ended."""
    kept = _gate(gate)
    state = kept.state()
    found = standings(state, time.time())
    if as_json:
        say_json(
            {
                "gate": state.run,
                "target": state.target,
                "tip": state.tip,
                "paused": state.paused,
                "shut": state.halted,
                "overload": overload(state, time.time(), kept.options.trials),
                "entries": [asdict(one) for one in found],
            }
        )
        return 0
    say(f"{state.target} of {state.hub} at {state.tip[:12]}, {len(state.train.line.entries)} in line")
    if (warning := overload(state, time.time(), kept.options.trials)) is not None:
        say(warning)
    for word, why in (("paused", state.paused), ("shut", state.halted)):
        if why:
            say(f"the gate is {word}: {why}; open it with: forgepool gate resume")
    out().print(table(("entry", "state", "rev", "class", "by", "why"), [_row(one) for one in found[:_MOST_ROWS]]))
    if len(found) > _MOST_ROWS:
        say(f"and {len(found) - _MOST_ROWS} more, which --json has")
    return 0


_MOST_ROWS = 60


def _row(one: EntryStanding) -> tuple[str, ...]:
    return (one.entry, one.state, str(one.revision), one.klass, one.by, one.why)


def explain(entry: Entry, gate: Gate = None, as_json: Json = False) -> int:
    """Say in one paragraph why an entry waits or was returned, with the command that shows it again."""
    kept = _gate(gate)
    state = kept.state()
    task = state.tasks[_named(kept, state, entry)]
    if as_json:
        reasons = [one.model_dump(mode="json") for one in task.reasons]
        say_json({**asdict(standing_of(state, task, time.time())), "reasons": reasons})
    else:
        say(explained(state, task, time.time()))
    return 0


def withdraw(entry: Entry, gate: Gate = None) -> int:
    """Take an entry out of line. What is landing lands."""
    return _ask(gate, entry, Request(do="cancel", task=entry_name(entry)), "withdraw")


def retry(entry: Entry, gate: Gate = None) -> int:
    """Try the same commit of an entry again that was returned or withdrawn, or waits for a person."""
    return _ask(gate, entry, Request(do="retry", task=entry_name(entry), by=_person()), "try again")


def grant(entry: Entry, globs: Globs = None, waive: Rules = None, gate: Gate = None) -> int:
    """Let this very commit of an entry change what is protected, or pass a rule of the scans."""
    request = granting(entry_name(entry), tuple(globs or ()), tuple(waive or ()), _person() or "somebody")
    return _ask(gate, entry, request, "grant")


def hold(entry: Entry, gate: Gate = None) -> int:
    """Keep an entry where it is: it is not tested and does not land, and nobody waits for it."""
    return _ask(gate, entry, Request(do="hold", task=entry_name(entry), by=_person()), "hold")


def release(entry: Entry, gate: Gate = None) -> int:
    """Let an entry go on that was held."""
    return _ask(gate, entry, Request(do="release", task=entry_name(entry), by=_person()), "release")


def priority(
    entry: Entry,
    klass: Annotated[str, typer.Argument(metavar="CLASS", help=f"{', '.join(CLASSES)}.")],
    gate: Gate = None,
) -> int:
    """Put an entry into another class of the line."""
    if klass not in CLASSES:
        raise CannotRun(f"there is no class '{klass}'; say {', '.join(CLASSES[:-1])} or {CLASSES[-1]}")
    request = Request(do="reclass", task=entry_name(entry), text=klass, by=_person())
    return _ask(gate, entry, request, f"make {klass}")


def pause(
    why: Annotated[str, typer.Argument(help="Why, for those who wait; in quotes.")] = "",
    gate: Gate = None,
) -> int:
    """Let nothing be tested and nothing land until `gate resume`; what runs may finish, and all keep their places."""
    return _ask(gate, None, Request(do="pause", text=why.strip(), by=_person()), "pause")


def resume(gate: Gate = None) -> int:
    """End a pause, or open a gate again that a red target had shut."""
    return _ask(gate, None, Request(do="go", by=_person()), "go on")


def _gate(name: str | None) -> KeptRun:
    """The gate of this home; of several the one that is named."""
    settings = Settings()
    gates = [one for one in runs.run_names(settings) if one.startswith("gate-")]
    found = gates if name is None else [one for one in gates if one == name or one.startswith((name, f"gate-{name}"))]
    if len(found) == 1:
        return runs.open_run(settings, found[0], with_course=False)
    if not gates:
        raise CannotRun("this home keeps no gate; open one with: forgepool gate serve --repo HUB --target BRANCH")
    raise CannotRun(f"name the gate with --gate; there are: {', '.join(sorted(gates))}")


def _named(kept: KeptRun, state: State, entry: str) -> str:
    name = entry_name(entry)
    if name not in state.submitted and (why := refusal(state, name)) is not None:
        raise CannotRun(why)
    if name not in state.submitted:
        latest = ", ".join([*state.submitted][-8:]) or "none yet"
        raise CannotRun(f"no entry '{entry}' has been taken in by {kept.options.run}; the latest are: {latest}")
    return name


def _ask(gate: str | None, entry: str | None, request: Request, wish: str) -> int:
    kept = _gate(gate)
    state = kept.state()
    if entry is not None:
        _named(kept, state, entry)
    if not asked(state, request):
        where = f"'{entry}' is {state.tasks[entry_name(entry)].phase}" if entry else "it stands so already"
        raise CannotRun(f"there is nothing to {wish}: {where}")
    try:
        _, changes = kept.amend(partial(_decided, request))
    except JournalBusy:
        inbox.leave(kept.folder, request)
        say(f"asked the gate to {wish}{f' {entry}' if entry else ''}")
        return 0
    for change in changes:
        say(gate_sentence(change, run=kept.options.run) or "")
    return 0


def _decided(request: Request, state: State) -> list[Event]:
    return asked(state, request) or []


def _person() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
