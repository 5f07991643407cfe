"""
Runs the gate on two commits for a person, a hook or a CI step: in this process, without Redis, workers or a run.

It sends the same messages as a run: scans, then checks, then, where both pass, a review. All that the head has and the
base lacks counts as one entry, however many commits and authors it has.
"""

import secrets
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from forgepool.orchestrator.decisions.reasons import count_of
from forgepool.orchestrator.launch.commits import CommitChange, change, fetch_commit, open_both
from forgepool.orchestrator.run.hub import Hub
from forgepool.supervisor.checks.running import CheckProgress
from forgepool.supervisor.findings import blocking
from forgepool.supervisor.messages.answers import CheckResult, Review
from forgepool.supervisor.messages.requests import PERSON, Author, CheckRequest, EntryRef, ReviewPolicy, ReviewRequest
from forgepool.workers.policy.gate_file.document import GATE_FILE, CheckDefinition
from forgepool.workers.policy.gate_file.reading import read_gate_file
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.commits.changes import FileTooLarge, find_at, read_file
from forgepool.worktrees.git.git import is_object_id, without_password

Reviewing = Literal["auto", "none", "required"]
Requirement = Literal["no", "named", "required"]
"""`named`: models wrote the change, and nothing but their family calls for a review."""
Verdict = Literal["passes", "nothing", "refused", "trouble"]

UNKNOWN, NOBODY = "unknown", "none"
"""The author's family where it is not known, and where no model wrote any of it."""
_RUN = "gate-check"
_PATIENCE_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCheckQuestion:
    """One question to the gate."""

    where: str
    """Path or URL of the repository."""
    base: str
    head: str
    plan_checks: tuple[CheckDefinition, ...] = ()
    grants: tuple[str, ...] = ()
    waive: tuple[str, ...] = ()
    files: tuple[str, ...] | None = None
    """Globs of paths that may change; None for any."""
    family: str = UNKNOWN
    """Family of the model that wrote the change."""
    reviewing: Reviewing = "auto"
    policy: ReviewPolicy = field(default_factory=ReviewPolicy)
    scans_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCheckAnswer:
    """The gate's answer."""

    change: CommitChange
    result: CheckResult | None
    """None where the change is empty, or was refused unseen."""
    review: Review | None = None
    unreviewed: str = ""
    """The reason there is no review; empty where there is one."""
    verdict: Verdict
    why: str = ""
    """One sentence saying why the change does not pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A question whose commits are in the mirror."""

    question: GateCheckQuestion
    hub: Hub
    change: CommitChange
    local: bool

    @property
    def named(self) -> tuple[str, str]:
        """Base and head as shown to people."""
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
    """Run the gate. `hear` receives each step of the checks, `heard` their result before a review begins."""
    question, found = ready.question, ready.change
    if found.empty:
        return GateCheckAnswer(change=found, result=None, verdict="nothing")
    unasked = _why_no_review(ready)
    if unasked and _requires_review(ready):
        return GateCheckAnswer(change=found, result=None, verdict="refused", why=f"a review is required, but {unasked}")
    request = _request(ready, reviewed=not unasked)
    result = _localise_reproduction(ready, _run_checks(request, settings, stop, hear, scans_only=question.scans_only))
    heard(result)
    answer = GateCheckAnswer(change=found, result=result, verdict="passes", unreviewed=unasked)
    if result.verdict != "green":
        verdict: Verdict = "trouble" if result.verdict == "infrastructure" else "refused"
        why = _why_no_checks(ready) or result.detail or result.verdict
        return replace(answer, verdict=verdict, why=why + _hint_for_people(question, result))
    if unasked:
        return _refuse_unreviewed(answer)
    from forgepool.supervisor.review.run_review import conduct

    review = conduct(_review_request(request, result, question), settings, stop=stop)
    return judge_answer(answer, review, required=_requirement(ready), policy=question.policy)


def _run_checks(
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


def _hint_for_people(question: GateCheckQuestion, result: CheckResult) -> str:
    """Return a hint for a change that scans refused and whose author was not named."""
    from forgepool.workers.workspace.scans.scanning import LIMITS

    limits = all(finding.rule in LIMITS for finding in result.findings if finding.weight != "note")
    if question.family != UNKNOWN or result.verdict != "findings" or limits:
        return ""
    return f"; if a person wrote the change, pass --author-family {NOBODY}: scans then only report"


def _refuse_unreviewed(answer: GateCheckAnswer) -> GateCheckAnswer:
    """Refuse a change with findings that need a review, where there is none."""
    if not _needs_review(answer):
        return answer
    return replace(
        answer, verdict="refused", why=f"the scans found something that needs a review, but {answer.unreviewed}"
    )


def _needs_review(answer: GateCheckAnswer) -> bool:
    return answer.result is not None and any(finding.weight == "attention" for finding in answer.result.findings)


def judge_answer(
    answer: GateCheckAnswer, review: Review, *, required: Requirement, policy: ReviewPolicy
) -> GateCheckAnswer:
    """Add a review's outcome to the answer. Without an eligible reviewer only a person's change passes."""
    detail = review.detail
    told = replace(answer, review=review)
    match review.outcome:
        case "passed":
            return told
        case "failed":
            held = count_of(len(blocking(review.findings, policy.threshold)), "finding")
            return replace(told, verdict="refused", why=f"the review has {held} that must be fixed")
        case "unreachable" if required == "no" and not _needs_review(answer):
            return replace(told, unreviewed=detail)
        case "unreachable" if required == "named" and not _needs_review(answer):
            why = f"a model wrote it, and {detail}; or pass --review none to go without a review"
            return replace(told, verdict="refused", why=why)
        case "infrastructure" | "not_configured":
            return replace(told, verdict="trouble", why=detail)
        case _:
            return replace(told, verdict="refused", why=detail or f"the review ended as {review.outcome}")


def _why_no_review(ready: Ready) -> str:
    """Return the reason no reviewer is asked; empty where one is."""
    question = ready.question
    if question.scans_only:
        return "only scans were requested (--scans-only)"
    if question.reviewing == "none":
        return "no review was requested (--review none)"
    if question.family == UNKNOWN:
        return (
            "the author's model family is unknown, and a reviewer must be of another family "
            f"(--author-family NAME, or {NOBODY} if no model wrote any of it)"
        )
    return ""


def _why_no_checks(ready: Ready) -> str:
    """Return a hint where the repository defines no checks; empty where it does."""
    git, found = ready.hub.mirror.git, ready.change
    if ready.question.scans_only or ready.question.plan_checks or GATE_FILE in find_at(git, found.base, GATE_FILE):
        return ""
    base, _ = ready.named
    return f"{base} has no {GATE_FILE}; `forgepool init` proposes one, or pass checks with --plan-checks FILE"


def _requires_review(ready: Ready) -> bool:
    question = ready.question
    if question.scans_only:
        return False
    return question.reviewing == "required" or _base_requires_review(ready)


def _requirement(ready: Ready) -> Requirement:
    if _requires_review(ready):
        return "required"
    return "no" if ready.question.family == NOBODY else "named"


def _base_requires_review(ready: Ready) -> bool:
    """Tell whether the base's gate file requires a review. An invalid file is the gate's to report."""
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
    said = request.model_dump(exclude={"request_id", "decisive", "diagnose"})
    (entry,) = request.entries
    subject, _, _ = entry.message.partition("\n")
    return ReviewRequest.model_validate(
        said
        | {
            "request_id": f"{request.request_id}-review",
            "policy": question.policy,
            "title": subject,
            "checked": (
                *(f"check '{certificate.check}' is green" for certificate in result.certificates),
                *(f"check {advice.words}" for advice in result.advice),
            ),
            "findings": result.findings,
        }
    )


def _localise_reproduction(ready: Ready, result: CheckResult) -> CheckResult:
    """
    Rewrite the reproduction for this repository: the composed commit exists only in this host's mirror, and merging the
    head gives the same tree.
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
