"""Folds a run's journal into a proof bundle. A caller may look up the commands of its checks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version

from forgepool.orchestrator.decisions.lead.review import synthesis_lines, view_review
from forgepool.orchestrator.decisions.reasons import (
    author_in,
    finding_lines,
    flaky_words,
    survey_words,
)
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import Recorded, is_being_written
from forgepool.orchestrator.plan.budget import Use
from forgepool.orchestrator.reports.attention import Liveness, attention
from forgepool.orchestrator.reports.costs import budget_words, compare_forecast, find_landing_attempts
from forgepool.orchestrator.reports.event_text import sentence
from forgepool.orchestrator.reports.proof.bundle import (
    BillItem,
    ForeignSpan,
    LandedEntry,
    LandingProof,
    ProofBundle,
    QueueLanding,
    ReviewProof,
    RunCost,
    TaskOutcome,
    WantedWord,
    WholeCheck,
    Work,
)
from forgepool.orchestrator.reports.proof.sums import is_waste
from forgepool.orchestrator.reports.report import flake_lines, host_lines
from forgepool.orchestrator.reports.status import standing, tell_verdict
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import DONE, TaskState
from forgepool.supervisor.messages.answers import Approval, PersonApproval, ReviewApproval
from forgepool.workers.schema.error_lines import error_lines
from forgepool.workers.schema.orders import Spent
from forgepool.workers.workspace.scans.findings import finding_words
from forgepool.worktrees.git.git import without_password

Commands = Callable[[str], Mapping[str, str]]
"""Looks up the commands of the checks by which a commit of the target judges, by name; empty where it cannot."""


def know_no_commands(base: str) -> Mapping[str, str]:
    """Look up nothing."""
    return {}


def collect(
    kept: KeptRun, state: RunState, recorded: Sequence[Recorded], *, commands: Commands = know_no_commands
) -> ProofBundle:
    """Return the run's bundle, without digest and signatures. `state` and `recorded` are those of its journal."""
    live = is_being_written(kept.folder)
    base = next((one.event.tip for one in recorded if isinstance(one.event, e.RunStarted)), "")
    landings = tuple(_landings(kept, state, recorded, commands))
    plan = kept.plan
    return ProofBundle(
        forgepool=version("forgepool"),
        run=kept.options.run,
        plan=plan.name,
        plan_digest=state.plan_digest,
        hub=without_password(kept.options.hub),
        target=kept.options.target,
        base=base,
        tip=_last_commit(state, landings) or base,
        began=recorded[0].at if recorded else 0.0,
        ended=recorded[-1].at if recorded else 0.0,
        outcome=standing(kept.course, state, now=state.at, live=live).outcome,
        verdict=tell_verdict(kept.course, state),
        synthesis=tuple(synthesis_lines(kept.course, state)),
        synthesis_review=view_review(kept.course, state),
        forecast=tuple(compare_forecast(state, recorded[-1].at - recorded[0].at)) if recorded else (),
        wanted=tuple(
            WantedWord(about=one.about, why=one.sentence, command=one.command)
            for one in attention(kept.course, state, Liveness(live=live, now=state.at))
        ),
        plan_checks=plan.checks if isinstance(plan.checks, tuple) else (),
        checks_waived=plan.checks == "none",
        reviewed=tuple(task.id for task in state.tasks.values() if task.id in kept.course.reviewed),
        landings=landings,
        by_queue=tuple(_by_queue(kept, state)),
        is_queue=kept.options.gate,
        others=tuple(_others(base, landings)),
        whole=tuple(_whole(recorded)),
        tasks=tuple(_outcome(kept, task) for task in state.tasks.values()),
        cost=_cost(kept, state),
        hosts=tuple(line.removeprefix("- ") for line in host_lines(recorded)),
        losses=tuple(_sentences(recorded, e.MessageLost, e.PartRestarted, e.HostSuspended)),
        flakes=tuple(line.removeprefix("- ") for line in flake_lines(recorded) if line.startswith("- ")),
        denials=tuple(_denials(recorded)),
    )


def _last_commit(state: RunState, landings: Sequence[LandingProof]) -> str:
    """Return the commit that landed last; of several that landed together, the one on top."""
    tops = {landing.commit for landing in landings}
    landed = sorted(state.in_phase("landed"), key=lambda task: (task.landed_at, task.commit in tops))
    return landed[-1].commit if landed else ""


def _landings(
    kept: KeptRun, state: RunState, recorded: Sequence[Recorded], commands: Commands
) -> Iterator[LandingProof]:
    """Yield the landings of this run's own train, the first to land first."""
    landed = {task.commit: task for task in state.in_phase("landed") if task.told is None}
    intents = {
        commit: one.event
        for one in recorded
        if isinstance(one.event, e.LandingIntended)
        for commit in one.event.commits or (one.event.commit,)
    }
    groups = {intents[commit].commit: intents[commit] for commit in landed if commit in intents}
    order = sorted(groups.values(), key=lambda one: landed[one.commit].landed_at if one.commit in landed else 0)
    for intent in order:
        found = commands(intent.base)
        names = {one.check for one in intent.certificates}
        last = landed.get(intent.commit)
        commits = intent.commits or (intent.commit,)
        pairs = zip(commits, intent.approvals or (None,) * len(commits), strict=True)
        yield LandingProof(
            base=intent.base,
            commit=intent.commit,
            tree=intent.tree,
            at=last.ended if last is not None else 0.0,
            host=last.landed_on_host if last is not None else "",
            entries=tuple(_entry(kept, state, landed[at], approval) for at, approval in pairs if at in landed),
            certificates=intent.certificates,
            commands={name: command for name, command in found.items() if name in names},
        )


def _entry(kept: KeptRun, state: RunState, task: TaskState, approval: Approval | None) -> LandedEntry:
    planned, author = kept.course.tasks[task.id], author_in(kept.course, state, task)
    verdict = task.verdict
    person = approval.by if isinstance(approval, PersonApproval) else ""
    return LandedEntry(
        task=task.id,
        title=planned.title,
        attempt=task.made_by,
        commit=task.commit,
        candidate=task.candidate,
        agent=author.agent,
        models=author.models,
        families=author.families,
        review=_review(kept, task, approval),
        approved_by=person,
        grants=planned.grants,
        waive=planned.waive,
        findings=tuple(f"{one.weight}: {finding_words(one)}" for one in (verdict.findings if verdict else ())),
        flaky=flaky_words(verdict) if verdict else (),
    )


def _review(kept: KeptRun, task: TaskState, approval: Approval | None) -> ReviewProof | None:
    answer = task.review.answer
    if not isinstance(approval, ReviewApproval) and answer is None:
        return None
    bound = approval if isinstance(approval, ReviewApproval) else answer
    lines = list(finding_lines(answer, kept.course.review_policy.threshold)) if answer is not None else []
    return ReviewProof(
        outcome=answer.outcome if answer is not None else "passed",
        patch_id=bound.patch_id if bound is not None else "",
        models=bound.models if bound is not None else (),
        families=bound.families if bound is not None else (),
        same_family=bound.same_family if bound is not None else False,
        changed=answer.changed if answer is not None else (),
        read=answer.read if answer is not None else (),
        held=tuple(line.removeprefix("held: ") for line in lines if line.startswith("held: ")),
        dropped=tuple(line.removeprefix("dropped: ") for line in lines if line.startswith("dropped: ")),
        summary=answer.summary if answer is not None else "",
    )


def _by_queue(kept: KeptRun, state: RunState) -> Iterator[QueueLanding]:
    for task in sorted(state.in_phase("landed"), key=lambda one: one.landed_at):
        if task.told is not None:
            yield QueueLanding(
                task=task.id,
                title=kept.course.tasks[task.id].title,
                commit=task.commit,
                queue=task.told.gate,
                entry=task.told.entry,
                said=task.told.proofs,
            )


def _others(base: str, landings: Sequence[LandingProof]) -> Iterator[ForeignSpan]:
    before = base
    for landing in landings:
        if landing.base != before:
            yield ForeignSpan(after=before, upto=landing.base)
        before = landing.commit


def _whole(recorded: Sequence[Recorded]) -> Iterator[WholeCheck]:
    sent = {one.event.message_id: one.event.base for one in recorded if isinstance(one.event, e.WaveSent)}
    for one in recorded:
        if isinstance(one.event, e.WaveAnswered) and (result := one.event.result).request_id in sent:
            commit = sent[result.request_id]
            yield WholeCheck(commit=commit, verdict=result.verdict, certificates=result.certificates)


def _outcome(kept: KeptRun, task: TaskState) -> TaskOutcome:
    planned, last = kept.course.tasks[task.id], task.reasons[-1] if task.reasons else None
    took = max(0.0, task.ended - task.first_started) if task.ended and task.first_started else None
    failed = last if last is not None and task.phase not in DONE else None
    return TaskOutcome(
        id=task.id,
        title=planned.title,
        phase=task.phase,
        attempts=task.last_attempt,
        commit=task.commit,
        detail=task.detail,
        missing_survey=bool(survey_words(kept.course, task)),
        seconds=took,
        expected_s=planned.duration_s,
        reasons=tuple(f"attempt {one.attempt}: {one.summary}" for one in task.reasons),
        errors=tuple(error_lines(failed.log_tail, 6)) if failed else (),
        reproduce=failed.reproduce if failed else "",
    )


def _cost(kept: KeptRun, state: RunState) -> RunCost:
    items = tuple(_items(state))
    costs = [one.cost_usd or 0.0 for one in items]
    return RunCost(
        items=items,
        total_usd=sum(costs),
        waste_usd=sum(one.cost_usd or 0.0 for one in items if is_waste(one)),
        review_usd=sum(one.cost_usd or 0.0 for one in items if one.work != "attempt"),
        unknown=sum(one.cost_usd is None for one in items),
        input_tokens=sum(one.input_tokens for one in items),
        cached_tokens=sum(one.cached_tokens for one in items),
        output_tokens=sum(one.output_tokens for one in items),
        budget=tuple(budget_words(kept.course.ledger(state))),
    )


def _items(state: RunState) -> Iterator[BillItem]:
    """Yield the use of each attempt and each review."""
    for task in (*state.tasks.values(), *state.removed.values()):
        landed = find_landing_attempts(task)
        for number, use in task.uses.items():
            yield _item(task.id, "attempt", number, use, landed=number in landed)
        for number, use in task.review.uses.items():
            yield _item(task.id, "review", number, use)
    for number, use in state.wave_review.review.uses.items():
        yield _item("", "integration review", number, use)


def _item(task: str, work: Work, number: int, use: Use, *, landed: bool = False) -> BillItem:
    """Return one item. An attempt that no worker began cost nothing; one without a known use has an unknown cost."""
    if use.ended == "untaken" and use.spent is None:
        return BillItem(task=task, work=work, number=number)
    spent = use.own or Spent(cost_usd=None)
    return BillItem(
        task=task,
        work=work,
        number=number,
        landed=landed,
        models=use.models,
        turns=spent.turns,
        input_tokens=spent.input_tokens,
        cached_tokens=spent.cached_tokens,
        output_tokens=spent.output_tokens,
        cost_usd=spent.cost_usd,
    )


def _sentences(recorded: Sequence[Recorded], *kinds: type[e.Event]) -> Iterator[str]:
    for one in recorded:
        if isinstance(one.event, kinds) and (said := sentence(one.event)) is not None:
            yield said


def _denials(recorded: Sequence[Recorded]) -> Iterator[str]:
    """Yield what the run itself refused: paths, and attempts that the policy ended. Single calls are in transcripts."""
    for one in recorded:
        match one.event:
            case e.PathsRefused(task=task, why=why):
                yield f"{task}: further paths refused: {why}"
            case e.OrderAnswered(task=task, result=result) if result.outcome in ("refused", "out_of_scope"):
                yield f"{task}: attempt {result.attempt} refused: {result.detail}"
            case _:
                pass
