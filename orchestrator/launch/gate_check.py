"""
The gate asked about two commits by a person, a hook or a CI step: in this process, without Redis, worker or run.

It is the gate of runs, asked by the same messages: scans, then checks, then, where both let the change in, a review.
What one commit has and the other lacks is taken as one entry, whoever made it and in however many commits.
"""

import secrets
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from forgepool.orchestrator.launch.commits import CommitChange, change, fetch_commit, open_both
from forgepool.orchestrator.run.hub import Hub
from forgepool.supervisor.checks.running import CheckProgress
from forgepool.supervisor.findings import ReviewFinding, blocking
from forgepool.supervisor.gate.requirements import GATE_FILE
from forgepool.supervisor.gate_file.document import CheckDefinition, read_gate_file
from forgepool.supervisor.messages import (
    PERSON,
    Author,
    CheckRequest,
    CheckResult,
    EntryRef,
    Review,
    ReviewPolicy,
    ReviewRequest,
)
from forgepool.workers.schema.settings import Settings
from forgepool.workers.schema.yaml.mistakes import DocumentWrong
from forgepool.worktrees.commits.changes import FileTooLarge, find_at, read_file
from forgepool.worktrees.git.git import is_object_id, without_password

Reviewing = Literal["auto", "none", "required"]
Verdict = Literal["passes", "nothing", "refused", "trouble"]

UNKNOWN, NOBODY = "unknown", "none"
"""Families of authors: nobody says which; no model had a hand in it."""
_RUN = "gate-check"
_PATIENCE_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCheckQuestion:
    """What is asked of the gate."""

    where: str
    """Path or URL of the repository."""
    base: str
    head: str
    plan_checks: tuple[CheckDefinition, ...] = ()
    grants: tuple[str, ...] = ()
    waive: tuple[str, ...] = ()
    files: tuple[str, ...] | None = None
    """Globs of what may be changed; None where nobody says."""
    family: str = UNKNOWN
    """Of the model that wrote it."""
    reviewing: Reviewing = "auto"
    policy: ReviewPolicy = field(default_factory=ReviewPolicy)
    scans_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCheckAnswer:
    """What the gate says, and what of it was not asked."""

    change: CommitChange
    result: CheckResult | None
    """None where there was nothing to look at."""
    review: Review | None = None
    unreviewed: str = ""
    """Why there is no verdict of a reviewer."""
    verdict: Verdict
    why: str = ""
    """One sentence, where it does not pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A question whose commits are here."""

    question: GateCheckQuestion
    hub: Hub
    change: CommitChange
    local: bool

    @property
    def named(self) -> tuple[str, str]:
        """Base and head as they are spoken of."""
        return _short(self.question.base), _short(self.question.head)


def prepare(question: GateCheckQuestion, settings: Settings) -> Ready:
    """
    Raises:
        CannotRun: there are no such commits, or they have nothing to do with one another.
        HubUnusable, GitFailed: the repository cannot be read.
    """
    hub, repository = open_both(question.where, settings)
    base, head = (fetch_commit(hub, repository, name) for name in (question.base, question.head))
    return Ready(question=question, hub=hub, change=change(hub, base, head), local=repository is not None)


def ask(
    ready: Ready,
    settings: Settings,
    *,
    stop: Callable[[], bool],
    heard: Callable[[CheckResult], None],
    hear: Callable[[CheckProgress], None] = lambda progress: None,
) -> GateCheckAnswer:
    """
    The gate's answer; `heard` is told what scans and checks said, before a review begins, and `hear` each step towards
    that.
    """
    question, found = ready.question, ready.change
    if found.empty:
        return GateCheckAnswer(change=found, result=None, verdict="nothing")
    unasked = _unasked(ready)
    if unasked and _required(ready):
        return GateCheckAnswer(change=found, result=None, verdict="refused", why=f"a review is required, but {unasked}")
    request = _request(ready, reviewed=not unasked)
    result = _mended(ready, _examined(request, settings, stop, hear, scans_only=question.scans_only))
    heard(result)
    answer = GateCheckAnswer(change=found, result=result, verdict="passes", unreviewed=unasked)
    if result.verdict != "green":
        verdict: Verdict = "trouble" if result.verdict == "infrastructure" else "refused"
        why = _unchecked(ready) or result.detail or result.verdict
        return replace(answer, verdict=verdict, why=why + _reported_for_people(question, result))
    if unasked:
        return _without_a_look(answer)
    from forgepool.supervisor.review.run_review import conduct

    review = conduct(_review_request(request, result, question), settings, stop=stop)
    return judge_answer(answer, review, required=_required(ready), policy=question.policy)


def _examined(
    request: CheckRequest,
    settings: Settings,
    stop: Callable[[], bool],
    hear: Callable[[CheckProgress], None],
    *,
    scans_only: bool,
) -> CheckResult:
    if scans_only:
        from forgepool.supervisor.gate.scan_only import screen

        return screen(request, settings)
    from forgepool.supervisor.gate.check_entry import examine

    return examine(request, settings, stop=stop, hear=hear)


def _reported_for_people(question: GateCheckQuestion, result: CheckResult) -> str:
    """The way out for a person who did not say that the change is their own, where scans keep it out."""
    from forgepool.supervisor.scans.scanning import LIMITS

    limits = all(one.rule in LIMITS for one in result.findings if one.weight != "note")
    if question.family != UNKNOWN or result.verdict != "findings" or limits:
        return ""
    return f"; for a change that a person made, say --author-family {NOBODY}, and scans only report"


def _without_a_look(answer: GateCheckAnswer) -> GateCheckAnswer:
    """Refuse what the base lets in only after a review, where there is none."""
    if not _wants_a_look(answer):
        return answer
    return replace(
        answer, verdict="refused", why=f"a reviewer must look at what the scans found, but {answer.unreviewed}"
    )


def _wants_a_look(answer: GateCheckAnswer) -> bool:
    return answer.result is not None and any(one.weight == "attention" for one in answer.result.findings)


def judge_answer(answer: GateCheckAnswer, review: Review, *, required: bool, policy: ReviewPolicy) -> GateCheckAnswer:
    """The answer with what a review came to. Nobody of another family at hand is a refusal where one is demanded."""
    detail = review.detail
    told = replace(answer, review=review)
    match review.outcome:
        case "passed":
            return told
        case "failed":
            held = _counted(blocking(review.findings, policy.threshold))
            return replace(told, verdict="refused", why=f"the review holds {held} against it")
        case "unreachable" if not required and not _wants_a_look(answer):
            return replace(told, unreviewed=detail)
        case "infrastructure" | "not_configured":
            return replace(told, verdict="trouble", why=detail)
        case _:
            return replace(told, verdict="refused", why=detail or f"the review ended as {review.outcome}")


def _unasked(ready: Ready) -> str:
    """Why nobody is asked to review; empty where somebody is."""
    question = ready.question
    if question.scans_only:
        return "scans alone were asked for"
    if question.reviewing == "none":
        return "no review was asked for"
    if question.family == UNKNOWN:
        return (
            "the author's family is not known, and only a model of another family may review "
            f"(--author-family NAME, or {NOBODY} where no model had a hand in it)"
        )
    return ""


def _unchecked(ready: Ready) -> str:
    """What to do where nobody has said yet how this repository is checked; empty where somebody has."""
    git, found = ready.hub.mirror.git, ready.change
    if ready.question.scans_only or ready.question.plan_checks or GATE_FILE in find_at(git, found.base, GATE_FILE):
        return ""
    base, _ = ready.named
    return (
        f"{base} has no {GATE_FILE}; `forgepool init` proposes one, and --plan-checks FILE takes its place until then"
    )


def _required(ready: Ready) -> bool:
    question = ready.question
    if question.scans_only:
        return False
    return question.reviewing == "required" or _demanded(ready)


def _demanded(ready: Ready) -> bool:
    """Whether the base's own gate file lets nothing in without a review; the gate says what is wrong with the file."""
    try:
        text = read_file(ready.hub.mirror.git, ready.change.base, GATE_FILE)
        said = None if text is None else read_gate_file(text.decode(errors="replace"), GATE_FILE)
    except (FileTooLarge, DocumentWrong):
        return False
    return said is not None and said.review == "required"


def _request(ready: Ready, *, reviewed: bool) -> CheckRequest:
    question, found = ready.question, ready.change
    base, head = ready.named
    now = time.time()
    entry = EntryRef(
        task=head,
        attempt=1,
        commit=found.candidate,
        ref=found.head,
        message=f"{found.subject}\n\nForgepool-Task: {head}\n",
        author=Author(agent=PERSON) if question.family == NOBODY else Author(families=(question.family,)),
        holds=question.files,
        grants=question.grants,
        waive=question.waive,
    )
    return CheckRequest(
        request_id=f"{time.strftime('%m%d-%H%M%S')}-{secrets.token_hex(3)}",
        token=secrets.token_hex(8),
        run=_RUN,
        hub=ready.hub.facts.url,
        target=base,
        base=found.base,
        entries=(entry,),
        plan_checks=question.plan_checks,
        reviewed=reviewed,
        private=True,
        issued_at=now,
        start_by=now + _PATIENCE_S,
    )


def _review_request(request: CheckRequest, result: CheckResult, question: GateCheckQuestion) -> ReviewRequest:
    said = request.model_dump(exclude={"request_id", "decisive"})
    (entry,) = request.entries
    subject, _, _ = entry.message.partition("\n")
    return ReviewRequest.model_validate(
        said
        | {
            "request_id": f"{request.request_id}-review",
            "policy": question.policy,
            "title": subject,
            "checked": (
                *(f"check '{one.check}' is green" for one in result.certificates),
                *(f"check {one.words}" for one in result.advice),
            ),
            "findings": result.findings,
        }
    )


def _mended(ready: Ready, result: CheckResult) -> CheckResult:
    """
    The same, with a reproduction for this repository: the entry's commit is in this host's mirror alone, and merging
    the commit it was made of gives the same tree.
    """
    if not result.reproduce:
        return result
    fetch, _, rest = result.reproduce.partition(" && ")
    found = ready.change
    steps = rest.replace(found.candidate, found.head) if fetch.startswith("git fetch ") else result.reproduce
    if not ready.local:
        steps = (
            f"{shlex.join(['git', 'fetch', without_password(ready.hub.facts.url), found.base, found.head])} && {steps}"
        )
    return result.model_copy(update={"reproduce": steps})


def _short(name: str) -> str:
    return name[:12] if is_object_id(name) else name.removeprefix("refs/heads/")


def _counted(held: tuple[ReviewFinding, ...]) -> str:
    return "one finding" if len(held) == 1 else f"{len(held)} findings"
