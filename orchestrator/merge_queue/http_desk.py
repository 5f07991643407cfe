"""Answers the API's calls, and reads their JSON bodies. No HTTP in here."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, ValidationError, model_validator

from forgepool.orchestrator.decisions.queue import submissions
from forgepool.orchestrator.decisions.queue.intake import apply_request, nothing_to_do, take_in, verb
from forgepool.orchestrator.decisions.queue.submissions import CLASSES, entry_name
from forgepool.orchestrator.journal import inbox
from forgepool.orchestrator.journal.events import EntryRefused
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.merge_queue.submit import Wish, push_submission
from forgepool.orchestrator.reports.queue_board import QueueView
from forgepool.orchestrator.reports.queue_status import EntryStanding, explain_task, findings_of, standing_of, standings
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.state.run import RunState, branch_of, with_branches
from forgepool.workers.schema.orders import Message
from forgepool.workers.workspace.refs import submission_ref
from forgepool.worktrees.git.git import CommitId, is_object_id, is_ref
from forgepool.worktrees.git.history import is_ancestor
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit

MOST_LISTED = 5000


class BadBody(Exception):
    """The body of a call is invalid; one sentence says why."""


def _line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it has unprintable characters")
    return text.strip()


Line = Annotated[str, Field(max_length=200), AfterValidator(_line)]


class JsonBody(Message):
    """A JSON body, with the field names of the API."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=False)


class SubmissionBody(JsonBody):
    """A branch or a commit of the hub to submit."""

    branch: Line | None = None
    commit: Line | None = None
    name: Line | None = None
    klass: Line = Field(default="normal", alias="class")
    needs: Annotated[tuple[Line, ...], Field(max_length=50)] = ()
    by: Line | None = None
    agent: Line | None = None
    family: Annotated[tuple[Line, ...], Field(max_length=10)] = ()

    @model_validator(mode="after")
    def _names_one(self) -> "SubmissionBody":
        if bool(self.branch) == bool(self.commit):
            raise ValueError("give either 'branch' or 'commit'")
        return self


class WordBody(JsonBody):
    """The body of a request without further data."""

    by: Line = "api"


class Class(JsonBody):
    """The body of a request to change an entry's class."""

    klass: Line = Field(alias="class")
    by: Line = "api"


class Pause(JsonBody):
    why: Line = ""
    by: Line = "api"


B = TypeVar("B", bound=JsonBody)


def read_body(kind: type[B], raw: bytes) -> B:
    """Read a body of this kind; an empty one counts as an object without keys. Raises BadBody."""
    try:
        return kind.model_validate_json(raw or b"{}")
    except ValidationError as wrong:
        raise BadBody(_sentence(kind, wrong)) from wrong


def _sentence(kind: type[JsonBody], wrong: ValidationError) -> str:
    first = wrong.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])[:60]
    keys = ", ".join(field.alias or name for name, field in kind.model_fields.items())
    said = str(first["msg"]).removeprefix("Value error, ")
    match first["type"]:
        case "json_invalid":
            return f"the body is not JSON; send an object with these keys: {keys}"
        case "extra_forbidden":
            return f"the body has an unknown key '{place}'; keys are: {keys}"
        case "missing":
            return f"the body lacks '{place}'; keys are: {keys}"
        case "value_error":
            return f"'{place}' is wrong: {said}" if place else f"the body is wrong: {said}"
        case _:
            return f"'{place or 'the body'}' is wrong: {said[:1].lower()}{said[1:]}"


Fields = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    status: int
    body: Fields


class RequestRefused(Exception):
    """The call is refused; has one sentence and an HTTP status."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """
    The API of one queue.

    Raises, from every method:
        RequestRefused: the call is refused.
        JournalUnreadable, GitFailed: the queue's journal or the hub cannot be read now.
    """

    view: QueueView
    mirror: Mirror
    target: str

    def status(self) -> HttpAnswer:
        return self.view.look(lambda state: HttpAnswer(status=200, body=_gate(state)))

    def entries(self, limit: int) -> HttpAnswer:
        """List queued entries, then ended ones, the latest first, up to `limit`."""

        def list_entries(state: RunState) -> HttpAnswer:
            found = standings(state, time.time())
            shown: list[JsonValue] = [_row(one) for one in found[:limit]]
            return HttpAnswer(status=200, body={"total": len(found), "entries": shown})

        return self.view.look(list_entries)

    def entry(self, name: str) -> HttpAnswer:
        """Return one entry, also a submission that the queue has not picked up yet."""
        found = self._known(name)
        if found is not None:
            return found
        ref = submission_ref(self.target, name)
        if ref in self.mirror.hub_refs(ref):
            why = "it is submitted; the queue will pick it up at its next look at the hub"
            return HttpAnswer(status=200, body={"entry": name, "state": "submitted", "why": why})
        # The queue journals an entry before it deletes the ref; it may have done both meanwhile.
        found = self._known(name)
        if found is not None:
            return found
        raise self._unknown(name)

    def submit(self, wanted: SubmissionBody) -> HttpAnswer:
        """Push a submission. One that the queue would refuse now is refused at once."""
        if wanted.klass not in CLASSES:
            raise RequestRefused(422, _no_class(wanted.klass))
        commit = self._commit(wanted)
        name = entry_name(wanted.name or wanted.branch or commit[:12])
        wish = _wish(self.mirror, wanted)
        self._foresee(name, commit, wish)
        try:
            done = push_submission(self.mirror, self.target, commit, name, wish)
        except CannotRun as refused:
            raise RequestRefused(409, str(refused)) from refused
        said = f"'{done.name}' ({commit[:12]}) is submitted to {self.target}"
        return HttpAnswer(status=202, body={"said": said, "name": done.name, "commit": commit})

    def word(self, request: PersonRequest) -> HttpAnswer:
        """Leave a request for the queue's next turn, if it would change something."""

        def refusal(state: RunState) -> str | None:
            if request.task is not None and request.task not in state.submitted:
                return ""
            return None if apply_request(state, request) else nothing_to_do(state, request)

        if request.do == "reclass" and request.text not in CLASSES:
            raise RequestRefused(422, _no_class(request.text))
        wrong = self.view.look(refusal)
        if wrong == "":
            raise self._unknown(request.task or "")
        if wrong is not None:
            raise RequestRefused(409, wrong)
        inbox.leave(self.view.folder, request)
        about = f" '{self.view.look(lambda state: branch_of(state, request.task or ''))}'" if request.task else ""
        return HttpAnswer(status=202, body={"said": f"the queue is asked to {verb(request)}{about}"})

    def _known(self, name: str) -> HttpAnswer | None:
        def reply_to_wait(state: RunState) -> HttpAnswer | None:
            if name not in state.submitted:
                return None
            task, now = state.tasks[name], time.time()
            reasons: list[JsonValue] = [reason.model_dump(mode="json") for reason in task.reasons]
            findings: list[JsonValue] = [one.model_dump(mode="json") for one in findings_of(task)]
            row = _row(standing_of(state, task, now))
            words = explain_task(state, task, now)
            return HttpAnswer(status=200, body={**row, "explained": words, "reasons": reasons, "findings": findings})

        return self.view.look(reply_to_wait)

    def _unknown(self, name: str) -> RequestRefused:
        refused = self.view.refusal(name)
        if refused is not None:
            why = self.view.look(lambda state: with_branches(state, refused.why))
            own = refused.branch or name
            return RequestRefused(404, f"'{own}' ({refused.commit[:12]}) was not accepted: {why}")
        latest = self.view.look(lambda state: [branch_of(state, one) for one in [*state.submitted][-8:]])
        return RequestRefused(404, f"there is no entry '{name}'; the latest are: {', '.join(latest) or 'none yet'}")

    def _commit(self, wanted: SubmissionBody) -> CommitId:
        if wanted.branch is not None:
            ref = f"refs/heads/{wanted.branch}"
            at = self.mirror.hub_refs(ref).get(ref) if is_ref(ref) else None
            if at is None:
                raise RequestRefused(422, f"the hub has no branch '{wanted.branch}'; push it there first")
            self.mirror.ensure(at, refs=(ref,))
            return at
        commit = CommitId(wanted.commit or "")
        if not is_object_id(commit):
            raise RequestRefused(
                422, f"'{commit[:60]}' is not a commit id; give all of its 40 or 64 digits, in lower case"
            )
        if not self._is_in_hub(commit):
            raise RequestRefused(422, f"commit {commit} is not on any branch or tag of the hub; push it there first")
        return commit

    def _is_in_hub(self, commit: CommitId) -> bool:
        """
        Tell whether the hub has the commit on a branch or at another ref. The mirror's other commits do not count.
        """
        self.mirror.fetch()
        found = ("for-each-ref", "--count=1", "--format=%(refname)", f"--contains={commit}", "refs/hub/heads")
        if self.mirror.has(commit) and self.mirror.git.text(*found):
            return True
        ref = next((ref for ref, at in self.mirror.hub_refs().items() if at == commit), None)
        if ref is None:
            return False
        try:
            self.mirror.ensure(commit, refs=(ref,))
        except MissingCommit:
            return False
        return True

    def _foresee(self, name: str, commit: CommitId, wish: Wish) -> None:
        said = {"class": (wish.klass,), "needs": tuple(entry_name(need) for need in wish.needs)}
        one = submissions.Submission(ref="", at=commit, name=name, commit=commit, said=said)
        tip = self.view.look(lambda state: state.tip)
        contained = is_ancestor(self.mirror.git, commit, CommitId(tip), missing_is_no=True)
        for event in self.view.look(lambda state: take_in(state, one, contained=contained)):
            if isinstance(event, EntryRefused):
                raise RequestRefused(409, f"'{name}' would not be accepted: {event.why}")


def _wish(mirror: Mirror, wanted: SubmissionBody) -> Wish:
    return Wish(
        what=wanted.branch or wanted.commit or "",
        repo=str(mirror.path),
        hub=mirror.hub,
        target=None,
        name=wanted.name,
        klass=wanted.klass,
        needs=wanted.needs,
        by=wanted.by,
        agent=wanted.agent,
        family=wanted.family,
    )


def _no_class(name: str) -> str:
    return f"there is no class '{name}'; choose {', '.join(CLASSES[:-1])} or {CLASSES[-1]}"


def _gate(state: RunState) -> Fields:
    return {
        "gate": state.run,
        "hub": state.hub,
        "target": state.target,
        "tip": state.tip,
        "in_line": len(state.train.line.entries),
        "paused": state.paused or state.halted,
        "shut": state.halted,
        "frozen_until": state.rules.frozen_until(time.time()),
    }


def _row(one: EntryStanding) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = asdict(one)
    fields["class"] = fields.pop("klass")
    return fields
