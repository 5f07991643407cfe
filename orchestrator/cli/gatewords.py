"""What a person says to a gate: of one entry, or of all."""

import getpass
import time
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

from orchestrator import inbox
from orchestrator.cli.granting import Globs, Rules, granting
from orchestrator.cli.say import say, say_json
from orchestrator.cli.texts import prove_text
from orchestrator.events import Event
from orchestrator.gatekeeper.intake import asked
from orchestrator.gatekeeper.naming import found, gate_called
from orchestrator.gatekeeper.pins import KEPT_DAYS, MOST_KEPT, forgettable
from orchestrator.gatekeeper.submissions import CLASSES
from orchestrator.gatekeeper.telling import gate_sentence
from orchestrator.hub import CannotRun
from orchestrator.inbox import Request
from orchestrator.journal import JournalBusy
from orchestrator.runs import KeptRun
from orchestrator.state import State
from workers.settings import Settings

Gate = Annotated[
    str | None, typer.Option("--gate", metavar="NAME", help="Which gate, by its branch, where there are several.")
]
Entry = Annotated[str, typer.Argument(help="The entry's name.")]
Json = Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")]


def register(gate: typer.Typer) -> None:
    for command in (withdraw, retry, grant, hold, release, priority, pause, resume):
        gate.command()(command)


def withdraw(entry: Entry, gate: Gate = None, as_json: Json = False) -> int:
    """Take an entry out of line. What is landing lands."""
    return _ask(as_json, gate, entry, Request(do="cancel"), "withdraw")


def retry(entry: Entry, gate: Gate = None, as_json: Json = False) -> int:
    """Try the same commit of an entry again that was returned or withdrawn, or waits for a person."""
    return _ask(as_json, gate, entry, Request(do="retry", by=_person()), "try again")


def grant(entry: Entry, globs: Globs = None, waive: Rules = None, gate: Gate = None, as_json: Json = False) -> int:
    """Let this very commit of an entry change what is protected, or pass a rule of the scans."""
    request = granting(tuple(globs or ()), tuple(waive or ()), _person() or "somebody")
    return _ask(as_json, gate, entry, request, "grant")


def hold(entry: Entry, gate: Gate = None, as_json: Json = False) -> int:
    """Keep an entry where it is: it is not tested and does not land, and nobody waits for it."""
    return _ask(as_json, gate, entry, Request(do="hold", by=_person()), "hold")


def release(entry: Entry, gate: Gate = None, as_json: Json = False) -> int:
    """Let an entry go on that was held."""
    return _ask(as_json, gate, entry, Request(do="release", by=_person()), "release")


def priority(
    entry: Entry,
    klass: Annotated[str, typer.Argument(metavar="CLASS", help=f"{', '.join(CLASSES)}.")],
    gate: Gate = None,
    as_json: Json = False,
) -> int:
    """Put an entry into another class of the line."""
    if klass not in CLASSES:
        raise CannotRun(f"there is no class '{klass}'; say {', '.join(CLASSES[:-1])} or {CLASSES[-1]}")
    request = Request(do="reclass", text=klass, by=_person())
    return _ask(as_json, gate, entry, request, f"make {klass}")


def pause(
    why: Annotated[str, typer.Argument(help="Why, for those who wait; in quotes.")] = "",
    gate: Gate = None,
    as_json: Json = False,
) -> int:
    """Let nothing be tested and nothing land until `gate resume`; what runs may finish, and all keep their places."""
    prove_text(why, "what is said of why")
    return _ask(as_json, gate, None, Request(do="pause", text=why.strip(), by=_person()), "pause")


def resume(gate: Gate = None, as_json: Json = False) -> int:
    """End a pause, or open a gate again that a red target had shut."""
    return _ask(as_json, gate, None, Request(do="go", by=_person()), "open")


def _ask(as_json: bool, gate: str | None, entry: str | None, request: Request, wish: str) -> int:
    if entry is None:
        kept = gate_called(Settings(), gate)
        state, where = kept.state(), "it stands so already"
    else:
        one = found(Settings(), entry, gate)
        kept, state, where = one.kept, one.state, f"'{entry}' is {one.state.tasks[one.name].phase}"
        request = request.model_copy(update={"task": one.name, "candidate": one.state.submitted[one.name].commit})
        if request.do in ("retry", "grant"):
            refuse_forgotten(state, one.name)
    if not asked(state, request):
        raise CannotRun(f"there is nothing to {wish}: {where}")
    changes = _left_or_done(kept, request)
    said = [gate_sentence(change, run=kept.options.run) or "" for change in changes or ()]
    if as_json:
        say_json({"gate": kept.options.run, "entry": request.task, "done": changes is not None, "said": said})
        return 0
    for line in said if changes is not None else [f"asked the gate to {wish}{f' {entry}' if entry else ''}"]:
        say(line)
    return 0


def refuse_forgotten(state: State, entry: str) -> None:
    """Raises CannotRun where the hub need not have its commit any more."""
    if state.tasks[entry].phase != "landed" and entry in forgettable(state, time.time()):
        raise CannotRun(
            f"'{entry}' was given back more than {KEPT_DAYS} days ago, or before {MOST_KEPT} others, and is kept no "
            f"more; submit it again: forgepool gate submit BRANCH --name {entry}"
        )


def _left_or_done(kept: KeptRun, request: Request) -> Sequence[Event] | None:
    """What it has changed; None where somebody keeps the gate, who does it at the next turn."""
    try:
        return kept.amend(partial(_decided, request))[1]
    except JournalBusy:
        inbox.leave(kept.folder, request)
        return None


def _decided(request: Request, state: State) -> list[Event]:
    return asked(state, request) or []


def _person() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
