"""
From an event of the journal to the message it stands for. It is built from the state alone, so that a message is sent
again as it was.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from forgepool.orchestrator.decisions.lead.requests import first_reply
from forgepool.orchestrator.decisions.lead.review import write_subject
from forgepool.orchestrator.decisions.locks import may_ask
from forgepool.orchestrator.decisions.orders.kept_work import find_returned, find_work
from forgepool.orchestrator.decisions.orders.purse import find_growing, limits_of_order, list_closed_accounts
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reasons import author_in, describe_checks
from forgepool.orchestrator.decisions.reviews.task_reviews import review_policy_of, write_batch_call
from forgepool.orchestrator.journal.surveys import describe_with_earlier
from forgepool.orchestrator.plan.budget import Use
from forgepool.orchestrator.plan.document import Task, TaskNeed
from forgepool.orchestrator.run.recovery import landing_message
from forgepool.orchestrator.state.review import Outstanding
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IN_FLIGHT, TaskState
from forgepool.supervisor.entry import check, land, review
from forgepool.supervisor.messages.requests import (
    CheckRequest,
    EntryRef,
    LandedTask,
    LandRequest,
    ReviewRequest,
    Sibling,
    WaveOf,
)
from forgepool.workers.order.entry import run_order
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.queue.broker import Queue, send
from forgepool.workers.schema.orders import Assets, WorkOrder
from forgepool.workers.schema.policy_rules import ScanTerms
from forgepool.workers.schema.reports import LeadReply, Prior
from forgepool.workers.workspace.refs import candidate_ref, journal_ref, sign_ref

_SUMMARY_CHARACTERS = 4_000
FULL_CHARACTERS = 64_000
_ALL_CHARACTERS = 256_000
_SUMMARY_PATHS, _FULL_PATHS = 100, 2_000


def priors(course: PlanIndex, state: RunState, planned: Task) -> tuple[Prior, ...]:
    """
    Return the results of the tasks it needs, landed, reported or otherwise done, in the plan's order; once the bound is
    reached, without their claims.
    """
    left = _ALL_CHARACTERS
    found = []
    for need in planned.needs:
        if course.tasks[need.id].surveys and state.tasks[need.id].report is None:
            continue
        prior = _prior(course, state, need)
        size = len(prior.summary) + sum(map(len, prior.paths)) + (len(prior.report.output) if prior.report else 0)
        if size > left:
            report = prior.report and prior.report.model_copy(update={"output": ""})
            prior = prior.model_copy(update={"summary": "", "paths": (), "report": report})
            size = 0
        left -= size
        found.append(prior)
    return tuple(found)


def _prior(course: PlanIndex, state: RunState, need: TaskNeed) -> Prior:
    task = state.tasks[need.id]
    summary = task.result.claimed_summary if task.result else ""
    paths = task.result.paths if task.result else ()
    return Prior(
        task=need.id,
        full=need.full,
        title=course.tasks[need.id].title,
        summary=summary[: FULL_CHARACTERS if need.full else _SUMMARY_CHARACTERS],
        commit=task.commit,
        paths=paths[: _FULL_PATHS if need.full else _SUMMARY_PATHS],
        report=task.report,
        surveyed=task.base if course.tasks[need.id].surveys else "",
    )


def send_message(
    course: PlanIndex,
    state: RunState,
    sent: Outstanding,
    *,
    now: float,
    resent: bool,
    queue: Queue,
    done: Sequence[str] = (),
) -> None:
    """Send a message that is owed an answer; a landing also removes the refs `done`. Raises BrokerAway."""
    match sent.kind:
        case "order":
            message = order(course, state, state.tasks[sent.task], sent, now=now, resent=resent)
            send(run_order, message, message_id=sent.message_id, queue=queue)
        case "check":
            send(check, check_request(course, state, sent, now=now), message_id=sent.message_id, queue=queue)
        case "wave":
            send(check, wave_request(course, state, sent, now=now), message_id=sent.message_id, queue=queue)
        case "review":
            of_task = review_request(course, state, state.tasks[sent.task], sent, now=now, resent=resent)
            send(review, of_task, message_id=sent.message_id, queue=queue)
        case "wave_review":
            of_whole = wave_review_request(course, state, sent, now=now, resent=resent)
            send(review, of_whole, message_id=sent.message_id, queue=queue)
        case "landing":
            landing = land_request(course, state, sent, now=now, done=done)
            send(land, landing, message_id=sent.message_id, queue=queue)


_MAY_LIE_S = 3600.0
"""Seconds a message may lie in a queue before it is stale. Counted from each sending."""
_MOST_SIBLINGS = 100
_MOST_FILES = 50
_MOST_TOLD = 100
"""The largest number of a wave's tasks that its reviewer is told about."""
_MOST_CLAIMED = 20_000


def order(
    course: PlanIndex, state: RunState, task: TaskState, sent: Outstanding, *, now: float, resent: bool
) -> WorkOrder:
    planned, limits = course.tasks[task.id], limits_of_order(course, task)
    description, earlier = describe_with_earlier(state.survey, planned)
    return WorkOrder(
        order_id=sent.message_id,
        token=sent.token,
        run=state.run,
        task=task.id,
        attempt=task.attempt,
        hub=state.hub,
        target=state.target,
        base=task.base,
        anchor=journal_ref(state.run),
        title=planned.title,
        description=description,
        type=planned.type,
        agent=planned.agent,
        files=planned.files or (),
        acceptance=planned.acceptance,
        criteria=planned.criteria,
        answers=planned.answers,
        lead=_lead_replies(course, state, task),
        writes_nothing=planned.files == () and not planned.answers,
        unchanged=planned.unchanged,
        env=planned.env,
        policy=planned.policy,
        unattended=planned.unattended,
        network=planned.network,
        context=task.profile or None,
        assets=_assets(course, state),
        setups=tuple(check.needs for check in _plan_checks(course) if check.needs is not None),
        scans=_scan_terms(course, state, task),
        limits=limits,
        shared=find_growing(course, task),
        priced_usd=course.limits(task.id).cost_usd if limits.cost_usd is None else None,
        closed_accounts=list_closed_accounts(course, state, task.uses.get(task.attempt)),
        reasons=task.reasons,
        references=planned.context,
        reads=planned.reads,
        priors=(*priors(course, state, planned), *earlier, *_read_by_lead(course, state, task)),
        **_beginning(state, task),
        replies=task.replies,
        progress=course.plan.progress,
        may_ask_paths=may_ask(course, task.id),
        issued_at=sent.issued_at,
        start_by=now + _MAY_LIE_S,
        resent=resent,
    )


def _beginning(state: RunState, task: TaskState) -> dict[str, Any]:
    """Return the fields of an order about the earlier attempts that it goes on from."""
    mends = None if task.mends is None else find_work(state, task, task.mends)
    return {"resumes": task.resumes, "carried": task.uses.get(task.attempt, Use()).carried, "mends": mends}


def _scan_terms(course: PlanIndex, state: RunState, task: TaskState) -> ScanTerms:
    planned, checks = course.tasks[task.id], _plan_checks(course)
    verify = None if course.plan.checks == "none" else planned.verify
    return ScanTerms(
        grants=planned.grants,
        waive=planned.waive,
        reviewed=course.wants_review(task) or bool(state.gate),  # A queue has every entry of a model reviewed.
        checks={check.name: check.run for check in checks},
        verify=verify,
        definitions=tuple(check.model_dump_json() for check in checks if verify),
    )


def _lead_replies(course: PlanIndex, state: RunState, task: TaskState) -> tuple[LeadReply, ...]:
    if task.id != course.lead:
        return ()
    last = state.lead.reply
    return (first_reply(course, state, task.id), *((last,) if last is not None else ()))


def _read_by_lead(course: PlanIndex, state: RunState, task: TaskState) -> tuple[Prior, ...]:
    """Return the whole result that a lead has asked to read."""
    last = state.lead.reply
    if task.id != course.lead or last is None or last.read not in state.tasks:
        return ()
    return (_prior(course, state, TaskNeed(id=last.read, full=True)),)


def _assets(course: PlanIndex, state: RunState) -> Assets | None:
    paths = tuple(asset.path for asset in course.plan.assets)
    return Assets(commit=state.assets, paths=paths) if state.assets else None


def check_request(course: PlanIndex, state: RunState, sent: Outstanding, *, now: float) -> CheckRequest:
    """Build the request of a trial. Landings since its decision are part of its base."""
    trial, out = state.train.line.trials[sent.message_id], state.train.out[sent.message_id]
    car = [state.tasks[one] for one in trial.car]
    return CheckRequest(
        **_train(course, state, sent, now),
        base=out.base,
        ahead=tuple(_entry(course, state, state.tasks[one]) for one in out.ahead),
        entries=tuple(_entry(course, state, task) for task in car),
        reviewed=all(course.wants_review(task) for task in car),
        decisive=trial.decisive,
        diagnose=not (course.serving and _is_waited_for(state, now)) or any(_is_repeatable(state, one) for one in car),
    )


def _is_waited_for(state: RunState, now: float) -> bool:
    """Tell whether entries of the queue wait for a slot."""
    line = state.train.line
    on_trial = {one for trial in line.trials.values() for one in trial.spec}
    waiting = line.entries.keys() - on_trial - state.held - state.train.refused.keys()
    return any(state.tasks[one].phase == "queued" and state.tasks[one].not_before <= now for one in waiting)


def _is_repeatable(state: RunState, task: TaskState) -> bool:
    """Tell whether a run delegated a command, which it repeats freely if a diagnosis names another landing."""
    given = state.submitted.get(task.id)
    return given is not None and given.card is not None and given.author.agent == "command"


def wave_request(course: PlanIndex, state: RunState, sent: Outstanding, *, now: float) -> CheckRequest:
    """All checks, on the target itself; before anything has landed, what the host remembers will do."""
    wave = state.wave
    return CheckRequest(
        **_train(course, state, sent, now), base=wave.base, entries=(), whole=True, remembered=not wave.tasks
    )


def review_request(
    course: PlanIndex, state: RunState, task: TaskState, sent: Outstanding, *, now: float, resent: bool = False
) -> ReviewRequest:
    planned, use = course.tasks[task.id], task.review.uses.get(task.review.sent, Use())
    synthesis = write_subject(course, state, task) if task.phase == "reported" else None
    return ReviewRequest(
        **_train(course, state, sent, now),
        base=task.review.base,
        entries=() if synthesis else (_entry(course, state, task),),
        whole=synthesis is not None,
        synthesis=synthesis,
        reviewed=True,
        policy=review_policy_of(course, task),
        title=planned.title,
        description=planned.description,
        acceptance=planned.acceptance,
        criteria=planned.criteria,
        siblings=tuple(_siblings(course, state, task)),
        checked=describe_checks(task.verdict) if task.verdict else (),
        findings=tuple(one for one in task.verdict.findings if one.weight == "attention") if task.verdict else (),
        cost_usd=use.reserved_usd,
        tokens=use.reserved_tokens,
        closed_accounts=list_closed_accounts(course, state, use),
        batch=write_batch_call(state, task.review, resent=resent),
    )


def wave_review_request(
    course: PlanIndex, state: RunState, sent: Outstanding, *, now: float, resent: bool = False
) -> ReviewRequest:
    """Build the request to review all landings since the last one that was passed; beyond a bound, only their names."""
    own = state.wave_review
    answer, use = own.against, own.use or Use()
    return ReviewRequest(
        **_train(course, state, sent, now),
        base=own.review.base,
        entries=(),
        whole=True,
        reviewed=True,
        policy=course.review_policy,
        wave=_wave_of(course, state),
        known=answer if answer is not None and answer.outcome == "failed" else None,
        siblings=tuple(_siblings(course, state, None)),
        checked=describe_checks(state.wave.green) if state.wave.green is not None else (),
        cost_usd=use.reserved_usd,
        tokens=use.reserved_tokens,
        closed_accounts=list_closed_accounts(course, state, use),
        batch=write_batch_call(state, own.review, resent=resent),
    )


def _wave_of(course: PlanIndex, state: RunState) -> WaveOf:
    own = state.wave_review
    tasks = [state.tasks[one] for one in own.tasks]
    return WaveOf(
        number=own.review.sent,
        tip=own.tip,
        tasks=tuple(
            LandedTask(
                task=task.id,
                title=planned.title,
                description=planned.description[:_MOST_CLAIMED],
                acceptance=planned.acceptance,
                commit=task.commit,
            )
            for task in tasks[:_MOST_TOLD]
            for planned in (course.tasks[task.id],)
        ),
        more=own.tasks[_MOST_TOLD:],
        authors=tuple(dict.fromkeys(author_in(course, state, task) for task in tasks)),
        grants=tuple(dict.fromkeys(glob for task in tasks for glob in course.tasks[task.id].grants)),
        waive=tuple(dict.fromkeys(rule for task in tasks for rule in course.tasks[task.id].waive)),
    )


def _train(course: PlanIndex, state: RunState, sent: Outstanding, now: float) -> dict[str, Any]:
    """Return the fields common to every request to the supervisor."""
    return {
        "request_id": sent.message_id,
        "token": sent.token,
        "run": state.run,
        "hub": state.hub,
        "target": state.target,
        "anchor": sign_ref(state.target) if course.serving else journal_ref(state.run),
        "style": course.plan.landing,
        "plan_checks": _plan_checks(course),
        "checks_waived": course.plan.checks == "none",
        "had_gate_file": state.gate_file,
        "independence": course.independence,
        "issued_at": sent.issued_at,
        "start_by": now + _MAY_LIE_S,
    }


def _siblings(course: PlanIndex, state: RunState, task: TaskState | None) -> Iterator[Sibling]:
    """Yield the other tasks under way whose changes are known."""
    others = (one for one in state.in_phase(*IN_FLIGHT) if one is not task)
    for other in islice(others, _MOST_SIBLINGS):
        files = tuple(dict.fromkeys((*(course.tasks[other.id].files or ()), *other.extra)))
        yield Sibling(task=other.id, title=course.tasks[other.id].title, files=files[:_MOST_FILES])


def land_request(
    course: PlanIndex, state: RunState, sent: Outstanding, *, now: float, done: Sequence[str] = ()
) -> LandRequest:
    landing = state.train.landing
    if landing is None:
        raise ValueError(f"{sent.message_id} is to be sent, and no landing is under way")
    intent, tasks = landing.intent, [state.tasks[one] for one in landing.intent.entries]
    return LandRequest(
        **_train(course, state, sent, now),
        base=intent.base,
        entries=tuple(_entry(course, state, task) for task in tasks),
        reviewed=any(course.wants_review(task) for task in tasks),
        commit=intent.commit,
        tree=intent.tree,
        certificates=intent.certificates,
        approvals=intent.approvals,
        done=tuple(done),
    )


def _plan_checks(course: PlanIndex) -> tuple[CheckDefinition, ...]:
    return course.plan.checks if isinstance(course.plan.checks, tuple) else ()


def _entry(course: PlanIndex, state: RunState, task: TaskState) -> EntryRef:
    if task.result is None or not task.candidate:
        raise ValueError(f"'{task.id}' stands in the train without a candidate")
    attempt, planned, entry = task.result.attempt, course.tasks[task.id], state.submitted.get(task.id)
    return EntryRef(
        task=task.id,
        attempt=attempt,
        commit=task.candidate,
        ref=candidate_ref(state.run, task.id, attempt),
        message=landing_message(course, state, task, attempt),
        author=author_in(course, state, task),
        holds=course.tasks[task.id].files,
        extended=task.extra if entry is None or entry.card is None else entry.card.extended,
        grants=planned.grants,
        waive=planned.waive,
        planned=task.result.planned,
        claims=task.result.claimed_summary[:_MOST_CLAIMED],
        reviewed=course.wants_review(task),
        returned=find_returned(state, task, attempt),
        branch=entry is not None,
        style=None if entry is None else entry.style,
    )
