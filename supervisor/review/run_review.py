"""
Answers a review request: composes as the gate does, and shows reviewers a checkout of exactly that tree.

A verdict is bound to the composed tree and its patch id. Trouble with git, hub, disk or models is never a pass.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import assert_never

from forgepool.supervisor.checks.running import CheckPlace
from forgepool.supervisor.checks.runs import Untold
from forgepool.supervisor.findings import blocking
from forgepool.supervisor.gate.check_entry import Stop, entries_in, find_taken_out
from forgepool.supervisor.gate.requirements import independence_of, read_regenerated
from forgepool.supervisor.messages.answers import Review
from forgepool.supervisor.messages.requests import ReviewRequest, SynthesisOf
from forgepool.supervisor.regeneration.kept import CannotKeep, joint_patch_id
from forgepool.supervisor.regeneration.regenerate import CommandFailed, MakerChanged, remaking
from forgepool.supervisor.review.brief import ReviewBrief, show_files
from forgepool.supervisor.review.conversation import MOST_VOIDS, Position, ReviewConversation, ReviewSite
from forgepool.supervisor.review.debate import Debate, Heard, findings_of
from forgepool.supervisor.review.difference import Difference, difference
from forgepool.supervisor.review.panel import author_families, panel, take_lane
from forgepool.supervisor.review.synthesis import SynthesisReviewer
from forgepool.supervisor.review.wave import compose_landed, shrinkage
from forgepool.workers.agents.briefing.system_prompt import find_skill
from forgepool.workers.agents.families import are_apart
from forgepool.workers.context.profiles.registry import UnknownProfile
from forgepool.workers.context.transcript.entries import TranscriptWrong, read_transcript
from forgepool.workers.context.transcript.usage import Meter
from forgepool.workers.context.view.live import choose_profile as chosen_profile
from forgepool.workers.llm.provider import ModelFailed
from forgepool.workers.llm.routing.lane import BatchLane
from forgepool.workers.llm.routing.open import keys_of
from forgepool.workers.llm.routing.table import Table, read_table
from forgepool.workers.policy.gate_file.document import NotConfigured
from forgepool.workers.policy.judgement import judge_call
from forgepool.workers.policy.network import HostsRefused
from forgepool.workers.policy.rule import Ground
from forgepool.workers.policy.sources import policy_at
from forgepool.workers.sandbox.layers import NoSandbox
from forgepool.workers.sandbox.sandbox_profile import Shelter, private
from forgepool.workers.schema.logs import hider
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.orders import Limits, Spent, add_spent
from forgepool.workers.schema.settings import Settings
from forgepool.workers.tools.workplace import ToolRefused, Workplace
from forgepool.worktrees.checkouts.checkout import Checkout, Unusable, lease_checkout
from forgepool.worktrees.commits.compose import Composed, Conflict, compose
from forgepool.worktrees.git.git import CommitId, GitFailed
from forgepool.worktrees.hub.hub import HubUnusable
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit, open_mirror

_TROUBLE = (GitFailed, MissingCommit, HubUnusable, Unusable, NoSandbox, ToolRefused)
_LONGEST_WAIT_S = 35 * 86400.0


def conduct(request: ReviewRequest, settings: Settings, *, stop: Stop) -> Review:
    """The answer to a review request, whatever happens."""
    started = time.monotonic()
    blank = Review(
        request_id=request.request_id,
        token=request.token,
        outcome="infrastructure",
        spent=sum_spent(request, settings),
        host=settings.host,
    )
    try:
        review = _lead(request, settings, blank, stop)
    except (DocumentWrong, NotConfigured, HostsRefused, UnknownProfile, ModelFailed) as wrong:
        said = "; ".join(wrong.mistakes) if isinstance(wrong, DocumentWrong) else str(wrong)
        unread = request.batch.unread if request.batch is not None else Spent()
        spent = add_spent(sum_spent(request, settings), unread)
        review = blank.model_copy(update={"outcome": "not_configured", "detail": said, "spent": spent})
    except (*_TROUBLE, CannotKeep, Untold, OSError) as trouble:
        spent = sum_spent(request, settings)
        review = blank.model_copy(update={"detail": str(trouble), "spent": spent})
    return review.model_copy(update={"seconds": time.monotonic() - started})


def _lead(request: ReviewRequest, settings: Settings, blank: Review, stop: Stop) -> Review:
    """Lead a live review; or make the batch of one, look at it once, and judge its answer when it is there."""
    if request.batch is None:
        return _conduct(request, settings, blank, stop)
    lane = BatchLane(call=request.batch, table=read_table(settings.models_file))
    lane.look()
    review = blank if lane.over or lane.waits else _conduct(request, settings, blank, stop, lane)
    if lane.read and review.outcome not in ("passed", "failed"):
        lane.over = f"its answer in a batch does not count: {review.detail}"
    if lane.over:
        told = {"detail": f"it is made live: {lane.over}", "spent": add_spent(review.spent, lane.lost)}
        ticket = lane.ticket.model_copy(update={"over": lane.over})
        return blank.model_copy(update={**told, "models": review.models, "batch": ticket, "not_before": time.time()})
    if lane.waits and review.outcome == "infrastructure":
        detail = lane.said or f"it is in batch {lane.ticket.id}"
        return blank.model_copy(update={"detail": detail, "batch": lane.ticket, "not_before": lane.not_before})
    unread = Spent() if lane.read else request.batch.unread
    return review.model_copy(update={"spent": add_spent(review.spent, unread)})


def _conduct(
    request: ReviewRequest, settings: Settings, blank: Review, stop: Stop, lane: BatchLane | None = None
) -> Review:
    mirror = open_mirror(request.hub, settings.cache, credential_helper=settings.git_credential_helper)
    mirror.ensure(CommitId(request.base), refs=(f"refs/heads/{request.target}",))
    request = request.model_copy(update={"independence": independence_of(mirror, request)})
    if request.synthesis is not None:
        return _of_synthesis(request, request.synthesis, settings, blank, stop)
    if request.wave is not None:
        tip = compose_landed(mirror, request, request.wave)
        seen = shrinkage(mirror.git, CommitId(request.base), tip, request.wave)
        told = request.model_copy(update={"findings": seen})
        return _of_difference(told, settings, mirror, tip, blank, stop, lane)
    entries, base = entries_in(mirror, request), CommitId(request.base)
    if (gone := find_taken_out(mirror, request)) is not None:
        return blank.model_copy(update={"outcome": "stale", "detail": gone})
    made = remaking(mirror, request, read_regenerated(mirror, request), _place(request, settings, mirror, stop))
    composed = compose(mirror.git, base, entries, request.style, made)
    match composed:
        case Conflict(entry=entry, paths=paths, unmade=unmade):
            detail = f"'{entry}' conflicts with {request.target} in {', '.join(paths[:5])}"
            detail += f": {unmade.said}" if isinstance(unmade, CommandFailed | MakerChanged) else ""
            return blank.model_copy(update={"outcome": "conflict", "detail": detail})
        case Composed():
            return _of_difference(request, settings, mirror, composed, blank, stop, lane)
        case _:
            assert_never(composed)


def _of_synthesis(
    request: ReviewRequest, subject: SynthesisOf, settings: Settings, blank: Review, stop: Stop
) -> Review:
    table, folder = read_table(settings.models_file), _folder(request, settings)
    seated, limits = panel(request, table, settings), _left(request, blank.spent)
    if isinstance(seated, str):
        return blank.model_copy(update={"outcome": "unreachable", "detail": seated})
    if limits is None:
        return blank.model_copy(update={"outcome": "limits", "detail": "an earlier request has used all it may cost"})
    seat = seated.reviewers[0]
    reviewer = SynthesisReviewer(
        seat=seat,
        subject=subject,
        request_id=request.request_id,
        profile=chosen_profile(by_person=None, in_plan="", in_settings=settings.context),
        folder=folder,
        stop=stop,
        hide=hider(keys_of(table)),
    )
    position = reviewer.ask(limits)
    families = tuple(dict.fromkeys(seat.families[model] for model in reviewer.models))
    told = blank.model_copy(
        update={
            "models": reviewer.models,
            "families": families,
            "same_family": not all(are_apart(family, author_families(request.authors)) for family in families),
            "spent": add_spent(blank.spent, reviewer.spent),
            "log": str(folder),
        }
    )
    if position.ended != "verdict":
        return _failed(request, (position,), told)
    found = {
        "objections": reviewer.objections,
        "voids": tuple(f"not in the synthesis: {one}" for one in reviewer.dropped),
    }
    return told.model_copy(update={"outcome": "failed" if reviewer.objections else "passed", **found})


def _of_difference(
    request: ReviewRequest,
    settings: Settings,
    mirror: Mirror,
    composed: Composed,
    blank: Review,
    stop: Stop,
    lane: BatchLane | None,
) -> Review:
    base = CommitId(request.base)
    found = difference(mirror.git, base, composed)
    told = {
        "tree": composed.tree,
        "patch_id": joint_patch_id(mirror.git, base, composed.steps, composed.tree),
        "changed": found.paths,
    }
    whole = blank.model_copy(update=told)
    if not found.patches:
        return whole.model_copy(update={"outcome": "void", "detail": _nothing_changed(request)})
    if request.known is not None and request.known.patch_id == told["patch_id"]:
        return request.known.model_copy(
            update={"request_id": request.request_id, "token": request.token, "spent": blank.spent}
        )
    return _review(request, settings, mirror, found, whole, stop, lane)


def _place(request: ReviewRequest, settings: Settings, mirror: Mirror, stop: Stop) -> CheckPlace:
    """Return the place for commands that generate files; their logs lie beside those of the conversation."""
    return CheckPlace(mirror=mirror, settings=settings, logs=_folder(request, settings), stop=stop)


def _review(
    request: ReviewRequest,
    settings: Settings,
    mirror: Mirror,
    found: Difference,
    blank: Review,
    stop: Stop,
    lane: BatchLane | None,
) -> Review:
    table = read_table(settings.models_file)
    seated = panel(request, table, settings)
    if isinstance(seated, str):
        return blank.model_copy(update={"outcome": "unreachable", "detail": seated})
    before, files = blank.spent, show_files(found) if request.policy.context_mode == "injected" else None
    if lane is not None:
        seated = take_lane(seated, lane, fits=files is not None)
    with _bench(request, settings, mirror, found, table, stop) as (site, checkout):
        if (shut := _shut(site, request)) is not None:
            return blank.model_copy(update={"outcome": "unreachable", "detail": shut})
        site = replace(site, one_call=files is not None, chances=MOST_VOIDS if lane is None else 1)
        brief = ReviewBrief(request=request, difference=found, keep=_keeper(site.workplace), files=files or "")
        debate = Debate(
            panel=seated,
            brief=brief,
            site=site,
            purse=lambda others: _left(request, add_spent(before, others)),
            rounds=request.policy.rounds if len(seated.reviewers) > 1 else 1,
        )
        heard = debate.hold()
        altered = checkout.list_altered()
    told = blank.model_copy(
        update={
            **_account(heard, author_families(request.authors)),
            "spent": add_spent(before, heard.spent),
            "log": str(_folder(request, settings)),
        }
    )
    if altered:
        detail = f"the tree under review was changed while it was read, in {', '.join(altered[:5])}"
        return told.model_copy(update={"detail": detail})
    return _judged(request, heard, told)


@contextmanager
def _bench(
    request: ReviewRequest, settings: Settings, mirror: Mirror, found: Difference, table: Table, stop: Stop
) -> Iterator[tuple[ReviewSite, Checkout]]:
    """A checkout of the composed commit that no command can write, and what reads it."""
    with lease_checkout(mirror, found.composed.commit, settings.cache / "checkouts") as checkout:
        shelter = Shelter(settings=settings, writable=(), readable=(checkout.path, mirror.path))
        with private({}, shelter) as own:
            workplace = Workplace(
                root=checkout.path.resolve(),
                git=checkout.slot.pristine,
                tmp=own.tmp,
                env=own.env,
                confined=own.confined,
                stop=stop,
                left_s=lambda: request.policy.limits.wall_s,
            )
            site = ReviewSite(
                difference=found,
                workplace=workplace,
                policy=policy_at(mirror.git, CommitId(request.base), person=settings.policy_file),
                profile=chosen_profile(by_person=None, in_plan="", in_settings=settings.context),
                threshold=request.policy.threshold,
                transcripts=_folder(request, settings),
                criteria=len(request.criteria),
                lenses=tuple(_lens(mirror, request, name) for name in request.policy.lenses),
                request_id=request.request_id,
                stop=stop,
                hide=hider(keys_of(table)),
            )
            yield site, checkout


def _lens(mirror: Mirror, request: ReviewRequest, name: str) -> str:
    """Return the text of a reviewer's lens: a skill as the target has it, never as the entry would."""
    return find_skill(name, mirror.git, CommitId(request.base)).text


def _shut(site: ReviewSite, request: ReviewRequest) -> str | None:
    """Why no model may judge this: it may not read what it must, so neither may the diff be sent to it."""
    ground = Ground(root=site.workplace.root, home=Path.home())
    policy = site.policy.during("plan")
    for path in site.difference.paths:
        judged = judge_call(policy, "read_file", {"path": path}, ground)
        if judged.decision in ("deny", "prompt"):
            return f"no model may read {path} ({judged.reason})"
    return None


def _keeper(workplace: Workplace) -> Callable[[str, bytes], str]:
    return lambda name, data: str(workplace.keep(Path("diff", name), data))


def _left(request: ReviewRequest, others: Spent) -> Limits | None:
    """A conversation's limits: the policy's, and no more of the request's than is left of it."""
    limits = request.policy.limits
    usd, tokens = limits.cost_usd, limits.tokens
    if request.cost_usd is not None:
        if others.cost_usd is None or request.cost_usd - others.cost_usd <= 0:
            return None
        usd = min(usd or request.cost_usd, request.cost_usd - others.cost_usd)
    if request.tokens is not None:
        if request.tokens - others.tokens <= 0:
            return None
        tokens = min(tokens or request.tokens, request.tokens - others.tokens)
    return limits.model_copy(update={"cost_usd": usd, "tokens": tokens})


def _account(heard: Heard, authors: Sequence[str]) -> dict[str, object]:
    """Return who was asked and what was read, whatever the outcome."""
    families = tuple(dict.fromkeys(family for talk in heard.all for family in talk.families))
    return {
        "read": tuple(dict.fromkeys(path for talk in heard.decisive or heard.all for path in talk.read)),
        "models": tuple(dict.fromkeys(model for talk in heard.all for model in talk.models)),
        "families": families,
        "same_family": not all(are_apart(family, authors) for family in families),
        "voids": tuple(void for talk in heard.all for void in talk.voids),
        "waited_s": sum(talk.meter.waited_s for talk in heard.all),
    }


def _judged(request: ReviewRequest, heard: Heard, blank: Review) -> Review:
    if not heard.standing:
        return _failed(request, heard.failures, blank)
    findings = findings_of(heard.decisive)
    held = blocking(findings, request.policy.threshold)
    return blank.model_copy(
        update={
            "outcome": "failed" if held else "passed",
            "findings": findings,
            "confidence": min(talk.form.confidence for talk in heard.decisive if talk.form is not None),
            "summary": _summary(heard, dropped=not held and any(_fails(talk) for talk in heard.decisive)),
            "detail": _detail(held=len(held), dropped=len(findings) - len(held)),
        }
    )


def _fails(talk: ReviewConversation) -> bool:
    return talk.form is not None and talk.form.verdict == "fail"


def _summary(heard: Heard, *, dropped: bool) -> str:
    """Return the reviewers' summary, after the harness's own words."""
    told = [*heard.told, *dict.fromkeys(share for talk in heard.decisive for share in talk.shares)]
    if len(heard.standing) > 1:
        rounds = "1 round" if heard.rounds == 1 else f"{heard.rounds} rounds"
        told.append(f"{len(heard.standing)} reviewers, {rounds}")
    told += [f"no verdict of {failure.detail}" for failure in heard.failures]
    if dropped:
        told.append("a reviewer failed it, but nothing of what it found has to be mended")
    forms = [talk.form for talk in heard.decisive if talk.form is not None]
    answers = (
        f"criterion {one.number} {'met' if one.met else 'NOT met'}: {one.evidence}"
        for form in forms
        for one in form.criteria
    )
    return "\n".join([*(f"[{one}]" for one in told), *(form.summary for form in forms), *answers])


def _detail(*, held: int, dropped: int) -> str:
    beside = f", {dropped} not counted" if dropped else ""
    return f"{held} finding{'' if held == 1 else 's'} to be mended{beside}" if held else f"nothing to be mended{beside}"


def _failed(request: ReviewRequest, failures: tuple[Position, ...], blank: Review) -> Review:
    """Return the answer where no verdict counts; reasons that allow a retry come before those that do not."""
    order = ("infrastructure", "limits", "void", "not_configured")
    ended = next((one for one in order if any(failure.ended == one for failure in failures)), "infrastructure")
    detail = "; ".join(failure.detail for failure in failures)
    waits = [failure.not_before for failure in failures if failure.not_before is not None]
    not_before = min((*waits, time.time() + _LONGEST_WAIT_S)) if waits and ended == "infrastructure" else None
    return blank.model_copy(update={"outcome": ended, "detail": detail, "not_before": not_before})


def _nothing_changed(request: ReviewRequest) -> str:
    if request.wave is not None:
        return "what has landed in it comes to no difference: there is nothing to review"
    return f"the target {request.target} has all of it already: there is nothing to review"


def _folder(request: ReviewRequest, settings: Settings) -> Path:
    return settings.home / "runs" / request.run / "logs" / "reviews" / request.request_id


def sum_spent(request: ReviewRequest, settings: Settings) -> Spent:
    """By all conversations about this request, those of earlier deliveries included, as far as this host knows."""
    total = Spent()
    for path in sorted(_folder(request, settings).glob("*.jsonl")):
        try:
            total = add_spent(total, Meter.of(Limits(), read_transcript(path)).spent)
        except (OSError, TranscriptWrong):
            continue
    return total
