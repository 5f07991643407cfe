"""Requests to a queue: `withdraw`, `retry`, `grant`, `hold`, `release`, `priority`, `pause`, `resume`."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from forgepool.orchestrator.cli.output.say import printable, say, say_json
from forgepool.orchestrator.cli.run.options import complete_entry
from forgepool.orchestrator.cli.run.requests import check_text, login_name
from forgepool.orchestrator.decisions.queue.intake import apply_request, nothing_to_do, verb
from forgepool.orchestrator.decisions.queue.submissions import CLASSES
from forgepool.orchestrator.journal import inbox
from forgepool.orchestrator.journal.events import Event
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.journal.store import JournalBusy
from forgepool.orchestrator.merge_queue.lookup import find_entry, find_queue, hub_queues, one_of, server_queue
from forgepool.orchestrator.merge_queue.serve.hub_refs import KEPT_DAYS, MOST_KEPT, forgettable
from forgepool.orchestrator.reports.queue_board import RequestReply, gate_sentence
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.orchestrator.state.run import RunState, branch_of
from forgepool.workers.schema.globs import BadGlob, parse
from forgepool.workers.schema.mistakes import nearest
from forgepool.workers.schema.settings import Settings

Hub = Annotated[
    str | None,
    typer.Option(
        metavar="HUB", help="Path or URL of the queue's repository; default: the origin of the current clone."
    ),
]
Server = Annotated[
    str | None, typer.Option(metavar="URL", help="URL of the queue's HTTP API, to use instead of the repository.")
]
TokenFile = Annotated[Path | None, typer.Option(help="File with the API's token; default: FORGEPOOL_GATE_API_TOKEN.")]
Target = Annotated[
    str | None,
    typer.Option("--target", "--gate", metavar="BRANCH", help="The queue's branch, if there are several queues."),
]
Entry = Annotated[
    str, typer.Argument(help="The submitted branch, or the name given at submission.", autocompletion=complete_entry)
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


Globs = Annotated[
    list[str] | None, typer.Argument(metavar="[GLOB]...", help="Paths that the entry may change, even protected ones.")
]
Rules = Annotated[
    list[str] | None, typer.Option("--waive", metavar="RULE", help="A scan rule to skip for this entry; repeatable.")
]


def register(queue: typer.Typer, *, hidden: bool = False) -> None:
    for name, command in (("withdraw", withdraw), ("retry", retry), ("hold", hold), ("release", release)):
        queue.command(name, hidden=hidden)(command)
    for other in (grant, priority, pause, resume):
        queue.command(hidden=hidden)(other)


def _about_an_entry(do: Literal["cancel", "retry", "hold", "release"], help_text: str) -> Callable[..., int]:
    """Return the command for a request that has no argument but its entry."""

    def command(
        entry: Entry,
        target: Target = None,
        hub: Hub = None,
        server: Server = None,
        token_file: TokenFile = None,
        as_json: Json = False,
    ) -> int:
        request = PersonRequest(do=do, task=entry, by=login_name())
        return _ask_anywhere(request, target, hub, server, token_file, as_json)

    command.__doc__ = help_text
    return command


withdraw = _about_an_entry(
    "cancel", "Withdraw an entry, from any clone of its repository. One that is landing still lands."
)
retry = _about_an_entry(
    "retry", "Retry an entry that was returned or withdrawn, or waits for a person; with the same commit."
)
hold = _about_an_entry("hold", "Hold an entry: it is not tested and does not land; others do not wait for it.")
release = _about_an_entry("release", "Release an entry that is held.")


def grant(entry: Entry, globs: Globs = None, waive: Rules = None, target: Target = None, as_json: Json = False) -> int:
    """Let this commit of an entry change protected files, or skip a scan rule; only on the queue's host."""
    request = granting(tuple(globs or ()), tuple(waive or ()), login_name() or "somebody")
    return _ask(as_json, target, entry, request)


def priority(
    entry: Entry,
    klass: Annotated[str, typer.Argument(metavar="CLASS", help=f"{', '.join(CLASSES)}.")],
    target: Target = None,
    hub: Hub = None,
    server: Server = None,
    token_file: TokenFile = None,
    as_json: Json = False,
) -> int:
    """Move an entry to another priority class."""
    if klass not in CLASSES:
        raise CannotRun(f"there is no class '{klass}'; choose {', '.join(CLASSES[:-1])} or {CLASSES[-1]}")
    request = PersonRequest(do="reclass", task=entry, text=klass, by=login_name())
    return _ask_anywhere(request, target, hub, server, token_file, as_json)


def pause(
    why: Annotated[str, typer.Argument(help="The reason, for those who wait; in quotes.")] = "",
    target: Target = None,
    as_json: Json = False,
) -> int:
    """Pause the queue until `queue resume`: nothing new is tested or lands; entries keep their places."""
    check_text(why, "the reason")
    return _ask(as_json, target, None, PersonRequest(do="pause", text=why.strip(), by=login_name()))


def resume(target: Target = None, as_json: Json = False) -> int:
    """End a pause, also one that the queue began itself because the target's checks failed."""
    return _ask(as_json, target, None, PersonRequest(do="go", by=login_name()))


def granting(globs: tuple[str, ...], rules: tuple[str, ...], by: str) -> PersonRequest:
    """
    Return the request for a grant.

    Raises:
        CannotRun: a glob or a rule is invalid, or nothing is granted.
    """
    from forgepool.workers.policy.gate_file.document import RULES

    if not globs and not rules:
        raise CannotRun("name what to grant: globs of paths that the entry may change, or --waive RULE")
    for glob in globs:
        check_text(glob, f"the glob '{printable(glob)}'")
        try:
            parse(glob)
        except BadGlob as bad:
            raise CannotRun(f"cannot grant the {bad}") from bad
    for rule in rules:
        if rule not in RULES:
            meant = nearest(rule, RULES)
            mend = f"did you mean '{meant[0]}'?" if meant else f"rules are: {', '.join(sorted(RULES))}"
            raise CannotRun(f"there is no rule '{rule}'; {mend}")
    return PersonRequest(do="grant", grants=globs, waive=rules, by=by)


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
        return _ask(as_json, target, entry, request, hub)
    queue = one_of(queues, entry)
    reply = queue.ask(request)
    if reply is None:
        silence = queue.look().silence
        late = f"; {silence}, so it waits until one starts" if silence else "; it has not answered yet"
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


def _ask(as_json: bool, target: str | None, entry: str | None, request: PersonRequest, hub: str | None = None) -> int:
    if entry is None:
        kept = find_queue(Settings(), target)
        state = kept.state()
    else:
        one = find_entry(Settings(), entry, target, hub)
        kept, state = one.kept, one.state
        request = request.model_copy(update={"task": one.name, "candidate": one.state.submitted[one.name].commit})
        if request.do in ("retry", "grant"):
            refuse_forgotten(state, one.name)
    if not apply_request(state, request):
        raise CannotRun(nothing_to_do(state, request))
    changes = leave_or_do(kept, request)
    said = [gate_sentence(change, state) or "" for change in changes or ()]
    if as_json:
        name = entry and branch_of(state, request.task or "")
        say_json({"gate": kept.options.run, "entry": name, "done": changes is not None, "said": said})
        return 0
    for line in said if changes is not None else [f"asked the queue to {verb(request)}{f' {entry}' if entry else ''}"]:
        say(line)
    return 0


def refuse_forgotten(state: RunState, entry: str) -> None:
    """Raise CannotRun where the hub may no longer have the entry's commit."""
    if state.tasks[entry].phase != "landed" and entry in forgettable(state, time.time()):
        raise CannotRun(
            f"'{entry}' was returned more than {KEPT_DAYS} days ago, or before {MOST_KEPT} others, so its commit is "
            f"no longer kept; submit it again: forgepool queue submit BRANCH --name {entry}"
        )


def leave_or_do(kept: KeptRun, request: PersonRequest) -> Sequence[Event] | None:
    """Journal the request and return its events; None where a running queue will do so at its next turn."""
    try:
        return kept.amend(lambda state: apply_request(state, request) or [])[1]
    except JournalBusy:
        inbox.leave(kept.folder, request)
        return None
