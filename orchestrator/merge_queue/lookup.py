"""Which gate of this home a person means: by its name, by its target, or by an entry that only one of them has."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEntry:
    """An entry, and the gate that has it."""

    kept: KeptRun
    state: RunState
    name: str


def gates_called(settings: Settings, name: str | None) -> list[KeptRun]:
    """
    Those that the name may mean, all without one: a gate's own name, the branch that it stands before, or a beginning
    of its name, whichever fits first.

    Raises:
        CannotRun: there is none.
    """
    names = sorted(one for one in run_folder.run_names(settings) if one.startswith("gate-"))
    if not names:
        raise CannotRun("this home keeps no queue; start one with: forgepool queue serve --repo HUB --target BRANCH")
    kept = [run_folder.open_run(settings, one, with_course=False) for one in names]
    found = kept if name is None else _called(kept, name)
    if not found:
        raise CannotRun(f"there is no queue '{name}'; there are: {_listed(kept)}")
    return found


def gate_called(settings: Settings, name: str | None) -> KeptRun:
    """The one that is meant. Raises CannotRun."""
    return _only(gates_called(settings, name))


def find_entry(settings: Settings, entry: str, gate: str | None) -> FoundEntry:
    """
    The entry, where only one of the gates that may be meant has it.

    Raises:
        CannotRun: none has it, with why it was not taken in where one knows that; or several have it.
    """
    kept = gates_called(settings, gate)
    states = [one.state() for one in kept]
    named = (entry_name(entry), earlier_name(entry))
    name = next((one for one in named if any(one in state.submitted for state in states)), named[0])
    having = [at for at, state in enumerate(states) if name in state.submitted]
    if len(having) == 1:
        return FoundEntry(kept=kept[having[0]], state=states[having[0]], name=name)
    if having:
        raise CannotRun(f"'{name}' is an entry of several queues; say of which, with --target: {_listed(kept, having)}")
    if (why := next((why for state in states if (why := refusal(state, name)) is not None), None)) is not None:
        raise CannotRun(why)
    latest = (
        ", ".join(
            [name for state in states for name in [branch_of(state, one) for one in [*state.submitted][-8:]]][-8:]
        )
        or "none yet"
    )
    who = kept[0].options.run if len(kept) == 1 else "any queue"
    raise CannotRun(f"no entry '{entry}' has been taken in by {who}; the latest are: {latest}")


def _called(kept: Sequence[KeptRun], name: str) -> list[KeptRun]:
    return (
        [one for one in kept if one.options.run == name]
        or [one for one in kept if one.options.target == name]
        or [one for one in kept if one.options.run.startswith((name, f"gate-{name}"))]
    )


def _only(kept: Sequence[KeptRun]) -> KeptRun:
    if len(kept) > 1:
        raise CannotRun(f"several queues may be meant; name one with --target: {_listed(kept)}")
    return kept[0]


def _listed(kept: Sequence[KeptRun], some: Sequence[int] | None = None) -> str:
    """By their targets, where that tells them apart."""
    shown = kept if some is None else [kept[at] for at in some]
    targets = [one.options.target for one in kept]
    told = (one.options.target if targets.count(one.options.target) == 1 else one.options.run for one in shown)
    return ", ".join(told)


_OBJECT: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])
_MOST_LISTED = 5000
_ROADS = {"cancel": ("DELETE", ""), "reclass": ("PUT", "/class")}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerQueue:
    """
    Raises, all of it:
        CannotRun: the API refuses what is asked.
        CannotReach: it does not answer, or with something that is not its own.
    """

    url: str
    token: str

    def board(self) -> Board:
        listed = self._asked("GET", f"/entries?limit={_MOST_LISTED}").get("entries", [])
        rows = [self._entry(one) for one in listed] if isinstance(listed, list) else []
        return self._read({**self._asked("GET", "/status"), "entries": rows})

    def entry(self, name: str) -> Board:
        """A board with this entry alone."""
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
    """Raises CannotRun where there is no token."""
    return ServerQueue(url=server, token=api_token(settings, token_file, option="--server"))


def hub_queues(hub: str | None, target: str | None, settings: Settings) -> list[HubQueue] | None:
    """
    The queues of a hub, of one target or of all; None where this home keeps what is meant.

    Raises:
        CannotRun: neither this home nor the hub has a queue.
        HubUnusable, GitFailed: a hub that was named cannot be asked.
    """
    homes = _kept_here(settings)
    try:
        mirror, facts = _mirror_of(hub, settings)
        mine = [one for one in homes if one.options.hub == facts.url and target in (None, one.options.target)]
        if any(is_being_written(one.folder) for one in mine):
            return None
        queues = [HubQueue(mirror, one) for one in _targets(mirror, facts, target)]
        if mine and all(one.look().silence for one in queues):
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
    """The queue that has the entry. Raises CannotRun where several may be meant."""
    if len(queues) == 1:
        return queues[0]
    having = [one for one in queues if one.knows(entry)]
    if len(having) == 1:
        return having[0]
    named = ", ".join(one.target for one in having or queues)
    why = f"'{entry}' is in several queues" if having else f"no queue has an entry '{entry}'"
    raise CannotRun(f"{why}; name one with --target: {named}")


def _kept_here(settings: Settings) -> list[KeptRun]:
    names = [one for one in run_folder.run_names(settings) if one.startswith("gate-")]
    return [run_folder.open_run(settings, one, with_course=False) for one in names]


def _mirror_of(hub: str | None, settings: Settings) -> tuple[Mirror, HubFacts]:
    """Prefer the clone in the current folder: it has most of the objects already."""
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
    """The branches that have, or had, a queue which shows itself in the hub, or submissions that wait for one."""
    wanted, asked = target or "*", target or facts.default_branch or "main"
    refs = mirror.hub_refs(board_ref(wanted), sign_ref(wanted), submissions_of(asked))
    prefixes = (board_ref(""), sign_ref(""))
    found = {ref.removeprefix(one) for ref in refs for one in prefixes if ref.startswith(one)}
    if any(ref.startswith(submission_ref(asked, "")) for ref in refs):
        found.add(asked)
    return sorted(found, key=lambda one: (one != facts.default_branch, one))
