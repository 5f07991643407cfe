"""Finds the queue or entry that a person names: in this home, in a hub, or at the address of an HTTP API."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from pydantic import JsonValue, TypeAdapter, ValidationError

from forgepool.orchestrator.decisions.queue.submissions import earlier_name, entry_name
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.journal.store import is_being_written
from forgepool.orchestrator.launch.prerequisites import CannotReach
from forgepool.orchestrator.merge_queue.http_server import api_token
from forgepool.orchestrator.merge_queue.hub_queue import HubQueue
from forgepool.orchestrator.merge_queue.submit import origin_of
from forgepool.orchestrator.reports.queue_board import Board, RequestReply
from forgepool.orchestrator.reports.queue_status import refusal
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.orchestrator.state.run import RunState, branch_of
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.refs import board_ref, sign_ref, submission_ref, submissions_of
from forgepool.worktrees.git.git import Git, GitFailed, without_password
from forgepool.worktrees.hub.hub import HubFacts, HubUnusable, inspect_hub
from forgepool.worktrees.hub.mirror import Mirror, open_mirror

_OBJECT: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])
_MOST_LISTED = 5000
_ROADS = {"cancel": ("DELETE", ""), "reclass": ("PUT", "/class")}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEntry:
    """An entry, and the queue of this home that has it."""

    kept: KeptRun
    state: RunState
    name: str


def find_queues(settings: Settings, name: str | None, hub: str | None = None) -> list[KeptRun]:
    """
    Return the queues of this home that the name may mean; all without a name.

    A full name counts before the name of a branch, and that before the beginning of a name. Of several, those of
    the hub, or of the repository at hand, count where there are any.

    Raises:
        CannotRun: there is none.
    """
    kept = sorted(_kept_here(settings), key=lambda queue: queue.options.run)
    if not kept:
        raise CannotRun("this home has no queue; start one with: forgepool queue serve --repo HUB --target BRANCH")
    if found := kept if name is None else _matching(kept, name):
        return _of_repository(found, hub, settings) if len(found) > 1 else found
    raise CannotRun(f"there is no queue '{name}'; there are: {_listed(kept)}")


def _of_repository(kept: list[KeptRun], hub: str | None, settings: Settings) -> list[KeptRun]:
    """Return the queues of that hub; all where it has none here, or no repository is at hand."""
    try:
        url = _mirror_of(hub, settings)[1].url
    except (HubUnusable, GitFailed):
        return kept
    return [queue for queue in kept if queue.options.hub == url] or kept


def find_queue(settings: Settings, name: str | None) -> KeptRun:
    """Return the one queue that is meant. Raises CannotRun."""
    kept = find_queues(settings, name)
    if len(kept) > 1:
        raise CannotRun(f"there are several queues; name one with --target: {_listed(kept)}")
    return kept[0]


def find_entry(settings: Settings, entry: str, gate: str | None, hub: str | None = None) -> FoundEntry:
    """
    Find an entry that exactly one queue of this home has.

    Raises:
        CannotRun: none has it, with the reason if it was not accepted; or several have it.
    """
    kept = find_queues(settings, gate, hub)
    states = [one.state() for one in kept]
    named = (entry_name(entry), earlier_name(entry))
    name = next((one for one in named if any(one in state.submitted for state in states)), named[0])
    having = [at for at, state in enumerate(states) if name in state.submitted]
    if len(having) == 1:
        return FoundEntry(kept=kept[having[0]], state=states[having[0]], name=name)
    if having:
        raise CannotRun(f"'{entry}' is an entry of several queues; name one with --target: {_listed(kept, having)}")
    if (why := next((why for state in states if (why := refusal(state, name)) is not None), None)) is not None:
        raise CannotRun(why)
    branches = [branch_of(state, one) for state in states for one in [*state.submitted][-8:]]
    latest = ", ".join(branches[-8:]) or "none yet"
    where = f"{kept[0].options.run} has no entry" if len(kept) == 1 else "no queue has an entry"
    raise CannotRun(f"{where} '{entry}'; the latest are: {latest}")


def _matching(kept: Sequence[KeptRun], name: str) -> list[KeptRun]:
    return (
        [one for one in kept if one.options.run == name]
        or [one for one in kept if one.options.target == name]
        or [one for one in kept if one.options.run.startswith((name, f"gate-{name}"))]
    )


def _listed(kept: Sequence[KeptRun], some: Sequence[int] | None = None) -> str:
    """Name queues by their targets where these are unique."""
    shown = kept if some is None else [kept[at] for at in some]
    targets = [one.options.target for one in kept]
    told = (one.options.target if targets.count(one.options.target) == 1 else one.options.run for one in shown)
    return ", ".join(told)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerQueue:
    """
    A queue behind its HTTP API (`--server URL`), with the board and requests that a hub's queue has.

    Raises, from every method:
        CannotRun: the API refuses the request.
        CannotReach: it does not answer, or not as a queue's API does.
    """

    url: str
    token: str

    def board(self) -> Board:
        listed = self._asked("GET", f"/entries?limit={_MOST_LISTED}").get("entries", [])
        rows = [self._entry(one) for one in listed] if isinstance(listed, list) else []
        return self._read({**self._asked("GET", "/status"), "entries": rows})

    def entry(self, name: str) -> Board:
        """Return a board with this entry alone."""
        found = self._asked("GET", f"/entries/{quote(name, safe='')}")
        if found.get("state") == "submitted":
            raise CannotRun(f"'{name}': {found.get('why', '')}")
        return self._read({**self._asked("GET", "/status"), "entries": [self._entry(found)]})

    def ask(self, request: PersonRequest) -> RequestReply:
        method, more = _ROADS.get(request.do, ("POST", f"/{request.do}"))
        body: dict[str, JsonValue] = {"by": request.by or "somewhere"}
        if request.do == "reclass":
            body["class"] = request.text
        said = self._asked(method, f"/entries/{quote(request.task or '', safe='')}{more}", body)
        return RequestReply(done=False, said=str(said.get("said", "")))

    def _entry(self, row: JsonValue) -> JsonValue:
        if not isinstance(row, dict):
            return row
        stand = {**row, "klass": row.get("class", "normal")}
        return {
            "stand": stand,
            "explained": row.get("explained", ""),
            "reasons": row.get("reasons", []),
            "findings": row.get("findings", []),
        }

    def _read(self, said: Mapping[str, JsonValue]) -> Board:
        try:
            return Board.model_validate(said)
        except ValidationError as strange:
            raise CannotReach(f"{self.url} does not answer as a queue's API does; give its address") from strange

    def _asked(self, method: str, path: str, body: Mapping[str, JsonValue] | None = None) -> dict[str, JsonValue]:
        import httpx2

        headers = {"Authorization": f"Bearer {self.token}"}
        try:
            answer = httpx2.request(method, self.url.rstrip("/") + path, json=body, headers=headers, timeout=30.0)
            said = _OBJECT.validate_json(answer.content)
        except (httpx2.TransportError, httpx2.DecodingError, httpx2.InvalidURL) as lost:
            raise CannotReach(f"{self.url} does not answer: {lost or type(lost).__name__}; check the address") from lost
        except ValidationError as strange:
            raise CannotReach(f"{self.url} does not answer as a queue's API does; give its address") from strange
        if answer.is_success:
            return said
        why = str(said.get("said", f"it answers with status {answer.status_code}"))
        if answer.status_code >= 500:
            raise CannotReach(why)
        raise CannotRun(why)


def server_queue(server: str, token_file: Path | None, settings: Settings) -> ServerQueue:
    """Return the queue behind an HTTP API. Raises CannotRun where there is no token."""
    return ServerQueue(url=server, token=api_token(settings, token_file, option="--server"))


def hub_queues(hub: str | None, target: str | None, settings: Settings) -> list[HubQueue] | None:
    """
    Return a hub's queues, of one target or of all; None where this home itself serves the queue that is meant.

    Raises:
        CannotRun: neither this home nor the hub has a queue.
        HubUnusable, GitFailed: the named hub cannot be asked.
    """
    homes = _kept_here(settings)
    try:
        mirror, facts = _mirror_of(hub, settings)
        mine = [kept for kept in homes if kept.options.hub == facts.url and target in (None, kept.options.target)]
        if any(is_being_written(one.folder) for one in mine):
            return None
        queues = [HubQueue(mirror, one) for one in _targets(mirror, facts, target)]
        if mine and all(queue.look().silence for queue in queues):
            return None
    except (HubUnusable, GitFailed):
        if hub is None and homes:
            return None
        raise
    if queues:
        return queues
    if homes and hub is None:
        return None
    where = without_password(facts.url)
    raise CannotRun(
        f"{where} has no queue{f' for {target}' if target else ''}; name another repository with --hub, or start one: "
        f"forgepool queue serve --repo {where} --target {target or 'BRANCH'}"
    )


def one_of(queues: list[HubQueue], entry: str) -> HubQueue:
    """Return the queue that has the entry. Raises CannotRun where it is not exactly one."""
    if len(queues) == 1:
        return queues[0]
    having = [queue for queue in queues if queue.knows(entry)]
    if len(having) == 1:
        return having[0]
    named = ", ".join(one.target for one in having or queues)
    why = f"'{entry}' is in several queues" if having else f"no queue has an entry '{entry}'"
    raise CannotRun(f"{why}; name one with --target: {named}")


def _kept_here(settings: Settings) -> list[KeptRun]:
    names = [name for name in run_folder.run_names(settings) if name.startswith("gate-")]
    return [run_folder.open_run(settings, one, with_course=False) for one in names]


def _mirror_of(hub: str | None, settings: Settings) -> tuple[Mirror, HubFacts]:
    """Open the hub through the clone in the current folder if there is one, since it has most objects."""
    helper = settings.git_credential_helper
    try:
        here = inspect_hub(".").local
    except HubUnusable as unusable:
        if hub is None:
            raise HubUnusable(f"{unusable}; or name the queue's repository with --hub") from unusable
        facts = inspect_hub(hub, credential_helper=helper)
        return open_mirror(facts.url, settings.cache, credential_helper=helper), facts
    assert here is not None, "a folder has its repository here"
    facts = inspect_hub(hub or origin_of(Git(git_dir=here)) or ".", credential_helper=helper)
    return Mirror(path=here, hub=facts.url, credential_helper=helper), facts


def _targets(mirror: Mirror, facts: HubFacts, target: str | None) -> list[str]:
    """List the branches with a queue's board or sign in the hub, or with waiting submissions."""
    wanted, asked = target or "*", target or facts.default_branch or "main"
    refs = mirror.hub_refs(board_ref(wanted), sign_ref(wanted), submissions_of(asked))
    prefixes = (board_ref(""), sign_ref(""))
    found = {ref.removeprefix(one) for ref in refs for one in prefixes if ref.startswith(one)}
    if any(ref.startswith(submission_ref(asked, "")) for ref in refs):
        found.add(asked)
    return sorted(found, key=lambda one: (one != facts.default_branch, one))
