"""Requests to a queue: about one entry, or about all."""

import getpass
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from forgepool.orchestrator.cli.output.say import printable, say, say_json
from forgepool.orchestrator.cli.run.requests import prove_text
from forgepool.orchestrator.decisions.queue.intake import apply_request, nothing_to_do, verb
from forgepool.orchestrator.decisions.queue.submissions import CLASSES
from forgepool.orchestrator.journal import inbox
from forgepool.orchestrator.journal.events import Event
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.journal.store import JournalBusy
from forgepool.orchestrator.merge_queue.lookup import find_entry, gate_called, hub_queues, one_of, server_queue
from forgepool.orchestrator.merge_queue.serve.hub_refs import KEPT_DAYS, MOST_KEPT, forgettable
from forgepool.orchestrator.reports.queue_board import RequestReply, gate_sentence
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.orchestrator.state.run import RunState, branch_of
from forgepool.workers.schema.globs import parse
from forgepool.workers.schema.segments import BadGlob
from forgepool.workers.schema.settings import Settings
from forgepool.workers.schema.yaml.mistakes import nearest


def granting(globs: tuple[str, ...], rules: tuple[str, ...], by: str) -> PersonRequest:
    """
    What is left for the gate.

    Raises:
        CannotRun: a glob or a rule is none, or nothing is granted.
    """
    from forgepool.supervisor.gate_file.rules import RULES

    if not globs and not rules:
        raise CannotRun("say what is granted: globs of what the entry may change, or --waive RULE")
    for glob in globs:
        prove_text(glob, f"the glob '{printable(glob)}'")
        try:
            parse(glob)
        except BadGlob as bad:
            raise CannotRun(f"nothing is granted by the {bad}") from bad
    for rule in rules:
        if rule not in RULES:
            meant = nearest(rule, RULES)
            mend = f"did you mean '{meant[0]}'?" if meant else f"rules are: {', '.join(sorted(RULES))}"
            raise CannotRun(f"there is no rule '{rule}'; {mend}")
    return PersonRequest(do="grant", grants=globs, waive=rules, by=by)


Globs = Annotated[
    list[str] | None, typer.Argument(metavar="[GLOB]...", help="Paths that it may change, protected or not.")
]
Rules = Annotated[list[str] | None, typer.Option("--waive", metavar="RULE", help="A rule that is not applied to it.")]


Hub = Annotated[
    str | None,
    typer.Option(
        metavar="HUB", help="Path or URL of the queue's repository; default: the origin of the clone you are in."
    ),
]
Server = Annotated[str | None, typer.Option(metavar="URL", help="Ask the queue's HTTP API there, not the repository.")]
TokenFile = Annotated[Path | None, typer.Option(help="The API's token; default: FORGEPOOL_GATE_API_TOKEN.")]
Target = Annotated[
    str | None,
    typer.Option("--target", "--gate", metavar="BRANCH", help="The queue's branch, where there are several queues."),
]
Entry = Annotated[str, typer.Argument(help="The branch that was submitted, or the name given with it.")]
Json = Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")]


def register(queue: typer.Typer, *, hidden: bool = False) -> None:
    for command in (withdraw, retry, grant, hold, release, priority, pause, resume):
        queue.command(hidden=hidden)(command)


def withdraw(
    entry: Entry,
    target: Target = None,
    hub: Hub = None,
    server: Server = None,
    token_file: TokenFile = None,
    as_json: Json = False,
) -> int:
    """Take an entry out of the queue, from any clone of its repository. What is just landing still lands."""
    return _ask_anywhere(PersonRequest(do="cancel", task=entry, by=_person()), target, hub, server, token_file, as_json)


def retry(
    entry: Entry,
    target: Target = None,
    hub: Hub = None,
    server: Server = None,
    token_file: TokenFile = None,
    as_json: Json = False,
) -> int:
    """Try an entry again that was returned or withdrawn, or waits for a person; with the same commit."""
    return _ask_anywhere(PersonRequest(do="retry", task=entry, by=_person()), target, hub, server, token_file, as_json)


def grant(entry: Entry, globs: Globs = None, waive: Rules = None, target: Target = None, as_json: Json = False) -> int:
    """Let this commit of an entry change protected files, or pass a rule of the scans; on the queue's host only."""
    request = granting(tuple(globs or ()), tuple(waive or ()), _person() or "somebody")
    return _ask(as_json, target, entry, request)


def hold(
    entry: Entry,
    target: Target = None,
    hub: Hub = None,
    server: Server = None,
    token_file: TokenFile = None,
    as_json: Json = False,
) -> int:
    """Keep an entry where it is: it is not tested and does not land, and no other entry waits for it."""
    return _ask_anywhere(PersonRequest(do="hold", task=entry, by=_person()), target, hub, server, token_file, as_json)


def release(
    entry: Entry,
    target: Target = None,
    hub: Hub = None,
    server: Server = None,
    token_file: TokenFile = None,
    as_json: Json = False,
) -> int:
    """Let an entry go on that was held."""
    return _ask_anywhere(
        PersonRequest(do="release", task=entry, by=_person()), target, hub, server, token_file, as_json
    )


def priority(
    entry: Entry,
    klass: Annotated[str, typer.Argument(metavar="CLASS", help=f"{', '.join(CLASSES)}.")],
    target: Target = None,
    hub: Hub = None,
    server: Server = None,
    token_file: TokenFile = None,
    as_json: Json = False,
) -> int:
    """Put an entry into another class of the queue."""
    if klass not in CLASSES:
        raise CannotRun(f"there is no class '{klass}'; say {', '.join(CLASSES[:-1])} or {CLASSES[-1]}")
    request = PersonRequest(do="reclass", task=entry, text=klass, by=_person())
    return _ask_anywhere(request, target, hub, server, token_file, as_json)


def pause(
    why: Annotated[str, typer.Argument(help="Why, for those who wait; in quotes.")] = "",
    target: Target = None,
    as_json: Json = False,
) -> int:
    """Let nothing be tested and nothing land until `queue resume`; what runs may finish, and all keep their places."""
    prove_text(why, "what is said of why")
    return _ask(as_json, target, None, PersonRequest(do="pause", text=why.strip(), by=_person()))


def resume(target: Target = None, as_json: Json = False) -> int:
    """End a pause, also one that the queue began itself because the target was red."""
    return _ask(as_json, target, None, PersonRequest(do="go", by=_person()))


def _ask_anywhere(
    request: PersonRequest,
    target: str | None,
    hub: str | None,
    server: str | None,
    token_file: Path | None,
    as_json: bool,
) -> int:
    """Send the request to the API, to the hub, or to the queue of this home."""
    entry, settings = request.task or "", Settings()
    if server is not None:
        return _tell_reply(server_queue(server, token_file, settings).ask(request), request, server, as_json)
    queues = hub_queues(hub, target, settings)
    if queues is None:
        return _ask(as_json, target, entry, request)
    queue = one_of(queues, entry)
    reply = queue.ask(request)
    if reply is None:
        silence = queue.look().silence
        late = f"; {silence}, and it is done when one starts" if silence else "; it has not answered yet"
        reply = RequestReply(done=False, said=f"asked the queue of {queue.target} to {verb(request)} {entry}{late}")
    elif not reply.done:
        raise CannotRun(reply.said)
    return _tell_reply(reply, request, queue.target, as_json)


def _tell_reply(reply: RequestReply, request: PersonRequest, queue: str, as_json: bool) -> int:
    if as_json:
        say_json({"gate": queue, "entry": request.task, "done": reply.done, "said": [reply.said]})
    else:
        say(reply.said)
    return 0


def _ask(as_json: bool, target: str | None, entry: str | None, request: PersonRequest) -> int:
    if entry is None:
        kept = gate_called(Settings(), target)
        state = kept.state()
    else:
        one = find_entry(Settings(), entry, target)
        kept, state = one.kept, one.state
        request = request.model_copy(update={"task": one.name, "candidate": one.state.submitted[one.name].commit})
        if request.do in ("retry", "grant"):
            refuse_forgotten(state, one.name)
    if not apply_request(state, request):
        raise CannotRun(nothing_to_do(state, request))
    changes = _left_or_done(kept, request)
    said = [gate_sentence(change, state) or "" for change in changes or ()]
    if as_json:
        name = entry and branch_of(state, request.task or "")
        say_json({"gate": kept.options.run, "entry": name, "done": changes is not None, "said": said})
        return 0
    for line in said if changes is not None else [f"asked the queue to {verb(request)}{f' {entry}' if entry else ''}"]:
        say(line)
    return 0


def refuse_forgotten(state: RunState, entry: str) -> None:
    """Raises CannotRun where the hub need not have its commit any more."""
    if state.tasks[entry].phase != "landed" and entry in forgettable(state, time.time()):
        raise CannotRun(
            f"'{entry}' was given back more than {KEPT_DAYS} days ago, or before {MOST_KEPT} others, and is kept no "
            f"more; submit it again: forgepool queue submit BRANCH --name {entry}"
        )


def _left_or_done(kept: KeptRun, request: PersonRequest) -> Sequence[Event] | None:
    """What it has changed; None where somebody keeps the gate, who does it at the next turn."""
    try:
        return kept.amend(partial(_decided, request))[1]
    except JournalBusy:
        inbox.leave(kept.folder, request)
        return None


def _decided(request: PersonRequest, state: RunState) -> list[Event]:
    return apply_request(state, request) or []


def _person() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
