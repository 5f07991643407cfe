"""What the API answers, and what it does for it: no HTTP in here."""

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
from forgepool.orchestrator.merge_queue.submit import Wish, hand_in
from forgepool.orchestrator.reports.queue_board import QueueView
from forgepool.orchestrator.reports.queue_status import EntryStanding, explain_task, findings_of, standing_of, standings
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.state.run import RunState, branch_of, with_branches
from forgepool.workers.schema.orders import Message
from forgepool.workers.workspace.refs import submission_ref
from forgepool.worktrees.git.git import CommitId, is_object_id, is_ref
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit


class BadBody(Exception):
    """One sentence on what is wrong with a body."""


def _line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it holds characters that cannot be printed")
    return text.strip()


Line = Annotated[str, Field(max_length=200), AfterValidator(_line)]


class JsonBody(Message):
    """By the names that JSON has for them."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=False)


class SubmissionBody(JsonBody):
    """A branch or a commit of the hub that is to be let in."""

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
            raise ValueError("it names what is to be let in by 'branch' or by 'commit', one of them")
        return self


class WordBody(JsonBody):
    """What goes with a word to the gate."""

    by: Line = "api"


class Class(JsonBody):
    """The class of the line that an entry is to be in."""

    klass: Line = Field(alias="class")
    by: Line = "api"


class Pause(JsonBody):
    why: Line = ""
    by: Line = "api"


B = TypeVar("B", bound=JsonBody)


def read_body(kind: type[B], raw: bytes) -> B:
    """The body as one of these; one that is empty is as one without keys. Raises BadBody."""
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
            return f"the body is no JSON; an object with these keys would be right: {keys}"
        case "extra_forbidden":
            return f"the body has '{place}', which is no key here; keys are: {keys}"
        case "missing":
            return f"the body lacks '{place}'; keys are: {keys}"
        case "value_error":
            return f"'{place}' is wrong: {said}" if place else f"the body is wrong: {said}"
        case _:
            return f"'{place or 'the body'}' is wrong: {said[:1].lower()}{said[1:]}"


Fields = Mapping[str, JsonValue]

MOST_LISTED = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    status: int
    body: Fields


class RequestRefused(Exception):
    """It is not done; one sentence, and the HTTP status for it."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """
    For one gate.

    Raises, all of it:
        Refused: as it says.
        JournalUnreadable, GitFailed: the gate's journal or the hub cannot be asked now.
    """

    view: QueueView
    mirror: Mirror
    target: str

    def status(self) -> HttpAnswer:
        return self.view.look(lambda state: HttpAnswer(status=200, body=_gate(state)))

    def entries(self, limit: int) -> HttpAnswer:
        """Those in line first, then what has ended, the latest first; no more than `limit` of them."""

        def list_entries(state: RunState) -> HttpAnswer:
            found = standings(state, time.time())
            shown: list[JsonValue] = [_row(one) for one in found[:limit]]
            return HttpAnswer(status=200, body={"total": len(found), "entries": shown})

        return self.view.look(list_entries)

    def entry(self, name: str) -> HttpAnswer:
        """Also of one that was submitted and that the gate has not looked at yet."""
        found = self._known(name)
        if found is not None:
            return found
        ref = submission_ref(self.target, name)
        if ref in self.mirror.hub_refs(ref):
            why = "it is submitted, and the queue takes it in when it looks at the hub again"
            return HttpAnswer(status=200, body={"entry": name, "state": "submitted", "why": why})
        # The gate journals before it removes what was submitted: it may have done both meanwhile.
        found = self._known(name)
        if found is not None:
            return found
        raise self._unknown(name)

    def submit(self, wanted: SubmissionBody) -> HttpAnswer:
        """Pushes what the gate will take in; what it would refuse, as it stands now, is refused at once."""
        if wanted.klass not in CLASSES:
            raise RequestRefused(422, _no_class(wanted.klass))
        commit = self._commit(wanted)
        name = entry_name(wanted.name or wanted.branch or commit[:12])
        wish = _wish(self.mirror, wanted)
        self._foresee(name, commit, wish)
        try:
            done = hand_in(self.mirror, self.target, commit, name, wish)
        except CannotRun as refused:
            raise RequestRefused(409, str(refused)) from refused
        said = f"'{done.name}' ({commit[:12]}) is submitted to {self.target}"
        return HttpAnswer(status=202, body={"said": said, "name": done.name, "commit": commit})

    def word(self, request: PersonRequest) -> HttpAnswer:
        """Leaves a request for the queue's next turn, where it would change something."""

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
            reasons: list[JsonValue] = [one.model_dump(mode="json") for one in task.reasons]
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
            return RequestRefused(404, f"'{own}' ({refused.commit[:12]}) was not taken in: {why}")
        latest = self.view.look(lambda state: [branch_of(state, one) for one in [*state.submitted][-8:]])
        return RequestRefused(
            404, f"no entry '{name}' has been taken in; the latest are: {', '.join(latest) or 'none yet'}"
        )

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
                422, f"'{commit[:60]}' is no commit's id; give all of its 40 or 64 digits, in lower case"
            )
        if not self._is_in_hub(commit):
            raise RequestRefused(422, f"commit {commit} is on no branch or tag of the hub; push it there first")
        return commit

    def _is_in_hub(self, commit: CommitId) -> bool:
        """On a branch, or itself at the end of any other ref. What the mirror has besides does not count."""
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
        said = {"class": (wish.klass,), "needs": tuple(entry_name(one) for one in wish.needs)}
        one = submissions.Submission(ref="", at=commit, name=name, commit=commit, said=said)
        tip = self.view.look(lambda state: state.tip)
        contained = self.mirror.git.run("merge-base", "--is-ancestor", commit, tip, ok=(0, 1, 128)).status == 0
        for event in self.view.look(lambda state: take_in(state, one, contained=contained)):
            if isinstance(event, EntryRefused):
                raise RequestRefused(409, f"'{name}' would not be taken in: {event.why}")


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
    return f"there is no class '{name}'; say {', '.join(CLASSES[:-1])} or {CLASSES[-1]}"


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
