"""Events as sentences for people: `run` prints them line by line, and `events` prints them afterwards."""

from collections.abc import Sequence

from forgepool.orchestrator.decisions.lead.results import describe_lead
from forgepool.orchestrator.decisions.reasons import count_of, one_line, reviewer_words
from forgepool.orchestrator.decisions.reviews.post_merge import where_to_look
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import Recorded
from forgepool.orchestrator.reports.costs import describe_money, describe_terms
from forgepool.orchestrator.reports.host_text import clock, describe_lost, host_sentence
from forgepool.supervisor.messages.answers import CheckResult, Review, describe_checks
from forgepool.workers.schema.confinement import LEVEL_WORDS, Level
from forgepool.workers.schema.error_lines import error_lines


def sentence(event: e.Event, *, run: str = "RUN") -> str | None:
    """Return one line for an event; None for one that people need not see. `run` appears in commands to type."""
    match event:
        case e.TaskParked(why="question"):
            return f"{event.task}: asks: {event.question} ({answer_with(run, event.task)})"
        case e.MessageLost():
            return describe_lost(event, run)
        case _:
            return host_sentence(event) or _of_run(event) or _of_waves(event) or _of_task(event)


def describe_confinement(level: Level | None) -> str:
    """Return the confinement of commands on this machine, as the end of a sentence."""
    return "" if level is None else f"; {LEVEL_WORDS[level]}"


def _of_run(event: e.Event) -> str | None:
    match event:
        case e.RunStarted():
            by = f", served by {event.gate}" if event.gate else ""
            begins = f"run {event.run} begins on {event.target} at {event.tip[:12]}{by}"
            return f"{begins}{describe_confinement(event.sandbox)}"
        case e.RunResumed():
            return f"the run resumes; the target is at {event.tip[:12]}{describe_confinement(event.sandbox)}"
        case e.RunPaused():
            return f"the run stops here: {event.why}" if event.why else "the run stops here"
        case e.RunEnded():
            return f"the run has ended: {_outcomes(event)}"
        case e.PlanRevised():
            return f"the run has a new plan: {_revision(event)}"
        case e.LeadReplied() | e.LeadSpoken():
            return describe_lead(event)
        case e.TasksAdded(tasks=tasks) | e.TasksDropped(tasks=tasks):
            names = shorten_list([one if isinstance(one, str) else one.id for one in tasks])
            what = f"{event.by} {event.kind.removeprefix('tasks.')} {count_of(len(tasks), 'task')}"
            return f"{what}: {names}; {event.why}".removesuffix("; ")
        case e.BudgetSet() | e.RunForecast():
            return describe_terms(event)
        case (
            e.GateHalted()
            | e.GatePaused()
            | e.GateResumed()
            | e.GateFrozen()
            | e.GateThawed()
            | e.GateNoticed()
            | e.TipMoved()
        ):
            return _of_gate(event)
        case _:
            return None


def _of_gate(
    event: e.GateHalted | e.GatePaused | e.GateResumed | e.GateFrozen | e.GateThawed | e.GateNoticed | e.TipMoved,
) -> str:
    match event:
        case e.GateFrozen():
            return f"frozen: only hotfixes land before {event.clock}"
        case e.GateThawed():
            return "the freeze is over; changes land again"
        case e.GateHalted():
            return f"{event.effect}: {event.why}"
        case e.GatePaused():
            why = f": {event.why}" if event.why else ""
            return f"the queue is paused{f' by {event.by}' if event.by else ''}{why}"
        case e.GateResumed():
            return f"the queue resumes{f', by {event.by}' if event.by else ''}"
        case e.GateNoticed():
            return event.away or f"{event.gate} serves the target again"
        case e.TipMoved():
            lost = f"; it no longer contains {', '.join(event.lost[:5])}, which had landed" if event.lost else ""
            return f"the target has moved to {event.tip[:12]}; waiting changes are tested on top of it{lost}"


def _of_waves(event: e.Event) -> str | None:
    match event:
        case e.WaveSent(tasks=()):
            return f"the target at {event.base[:12]} is checked before anything is built on it"
        case e.WaveSent():
            landings = count_of(len(event.tasks), "landing")
            return f"checking the whole target at {event.base[:12]}, after {landings} since {event.since[:12]}"
        case e.WaveAnswered(result=result) if result.verdict == "green":
            return f"the whole target passes its checks ({describe_checks(result.certificates)}){advice_words(result)}"
        case e.WaveAnswered(result=result) if result.verdict == "infrastructure":
            return f"the target could not be checked: {result.detail}"
        case e.WaveAnswered(result=result):
            return result.detail or f"the target is {result.verdict}"
        case e.WaveReviewSent(batch=batch) if batch is not None and batch.again:
            return None
        case e.WaveReviewSent():
            landings = count_of(len(event.tasks), "landing")
            return f"integration review of {landings} requested, {event.base[:12]}..{event.tip[:12]}"
        case e.WaveReviewAnswered():
            return _reviewed_as_whole(event.result)
        case e.WaveApproved():
            return f"{event.by} approved everything landed up to {event.tip[:12]}"
        case _:
            return None


def _reviewed_as_whole(result: Review) -> str | None:
    match result.outcome:
        case "passed" | "failed":
            found = f", {count_of(len(result.findings), 'finding')}" if result.findings else ""
            return f"integration review {result.outcome} by {reviewer_words(result)}{found}"
        case "infrastructure" if result.batch is not None:
            return f"the integration review: {result.detail}" if result.batch.is_news else None
        case "infrastructure" if result.not_before is not None:
            return f"the integration review waits for a model's rate limit: {result.detail}"
        case "infrastructure":
            return f"no integration review yet: {result.detail}"
        case _:
            why = result.detail or "; ".join(result.voids)
            return f"the run cannot end before an integration review passes: {why}"


def answer_with(run: str, task: str) -> str:
    """Return the command that answers a task's question."""
    return f"answer with: forgepool answer {run} {task} TEXT"


def _revision(event: e.PlanRevised) -> str:
    parts = (
        ("new", event.added),
        ("changed, restarted", event.afresh),
        ("no longer blocked", event.reopened),
        ("taken out", event.removed),
    )
    return "; ".join(f"{what}: {shorten_list(ids)}" for what, ids in parts if ids) or "every task keeps its outcome"


def _outcomes(event: e.RunEnded) -> str:
    unchanged = [f"{event.unchanged} without changes"] if event.unchanged else []
    there = [f"{event.already_there} already there"] if event.already_there else []
    reported = [f"{event.reported} reported"] if event.reported else []
    return ", ".join([f"{event.landed} landed", *reported, *unchanged, *there, f"{event.not_landed} not"])


def _rebuilt(event: e.ContextRebuilt) -> str:
    """`context rebuilt (ledger): 41,200 -> 12,300 tokens, 21% -> 6% of the window, 12 steps left out`"""
    cost = "cost unknown" if event.cost_usd is None else f"{event.cost_usd:.4f} USD"
    asked = f", {count_of(event.calls, 'call')} to a model, {cost}" if event.calls else ""
    if not event.changed:
        return f"context stays as it is ({event.profile}): {event.why}{asked}"
    before, after = event.before_tokens / event.window_tokens, event.after_tokens / event.window_tokens
    shrunk = f"{event.before_tokens:,} -> {event.after_tokens:,} tokens, {before:.0%} -> {after:.0%} of the window"
    gone = f", {count_of(len(event.dropped), 'step')} left out" if event.dropped else ""
    return f"context rebuilt ({event.profile}): {shrunk}{gone}{asked}"


def _of_task(event: e.Event) -> str | None:
    match event:
        case e.OrderSent():
            on = "" if event.resumes is None else f", continuing attempt {event.resumes}"
            mends = "" if event.mends is None else f", mending attempt {event.mends}"
            races = "" if event.races is None else f", racing attempt {event.races} by model {event.rung} of its ladder"
            return f"{event.task}: attempt {event.attempt} begins on {event.base[:12]}{on}{mends}{races}"
        case e.OrderAnswered() | e.WorkKept():
            return _answered(event)
        case e.PathsGranted() | e.PathsQueued() | e.PathsRefused() | e.LockExtended():
            return _of_paths(event)
        case e.CheckAnswered() | e.CarDissolved():
            return _checked(event)
        case e.EntrySubmitted() | e.EntryRefused() | e.EntryHeld() | e.EntryReclassed():
            return _of_entry(event)
        case e.ProfileChosen() | e.ContextRebuilt():
            return _of_context(event)
        case e.ReviewSent() | e.ReviewAnswered() | e.TaskApproved() | e.TaskRejected() | e.CandidateRestored():
            return _of_review(event)
        case e.LandingAnswered():
            return _landed(event)
        case e.EntryGiven() | e.EntryRecalled() | e.EntryTold():
            return _of_giving(event)
        case _:
            return describe_money(event) or _ended(event)


def _of_context(event: e.ProfileChosen | e.ContextRebuilt) -> str | None:
    if isinstance(event, e.ContextRebuilt):
        return f"{event.task}: {_rebuilt(event)}" if event.changed or event.why else None
    return f"{event.task}: context profile is now '{event.profile}'"


def _of_entry(event: e.EntrySubmitted | e.EntryRefused | e.EntryHeld | e.EntryReclassed) -> str:
    match event:
        case e.EntrySubmitted():
            by = f", by {event.by}" if event.by else ""
            again = f", revision {event.revision}" if event.revision > 1 else ""
            return f"{event.task}: {event.commit[:12]} queued{again}{by}{_leave(event)}"
        case e.EntryRefused():
            return f"{event.name}: {event.commit[:12]} not accepted: {event.why}"
        case e.EntryHeld():
            by = f" by {event.by}" if event.by else ""
            return f"{event.task}: {'held' if event.held else 'released'}{by}"
        case e.EntryReclassed():
            return f"{event.task}: priority is now {event.klass}"


def _leave(event: e.EntrySubmitted) -> str:
    if not event.granted_by:
        return ""
    grants = [f"allows it to change {', '.join(event.grants)}"] if event.grants else []
    rules = [f"waives {', '.join(event.waive)}"] if event.waive else []
    return f"; {event.granted_by} {' and '.join([*grants, *rules])}"


def _of_giving(event: e.EntryGiven | e.EntryRecalled | e.EntryTold) -> str | None:
    match event:
        case e.EntryGiven():
            return f"{event.task}: {event.commit[:12]} submitted to {event.gate}"
        case e.EntryRecalled():
            return f"{event.task}: withdrawn from the queue, unless it is already landing"
        case e.EntryTold(answer=answer) if answer.word == "landed":
            return f"{event.task}: landed as {answer.commit[:12]}, by {answer.gate}"
        case e.EntryTold(answer=answer) if answer.word == "wants_person":
            say = f"{answer.why} (forgepool approve {answer.gate} {answer.entry} --by NAME)"
            return f"{event.task}: waits for a person at {answer.gate}: {say}"
        case e.EntryTold(answer=answer) if answer.word == "in_line":
            return f"{event.task}: queued again at {answer.gate}"
        case _:
            return None


def _of_review(
    event: e.ReviewSent | e.ReviewAnswered | e.TaskApproved | e.TaskRejected | e.CandidateRestored,
) -> str | None:
    match event:
        case e.ReviewSent(batch=batch):
            return None if batch is not None and batch.again else f"{event.task}: review requested"
        case e.ReviewAnswered():
            return _reviewed(event)
        case e.TaskApproved():
            return f"{event.task}: {event.by} approved {event.commit[:12]}; it lands if its checks pass"
        case e.TaskRejected():
            return f"{event.task}: {'returned' if event.again else 'failed'}: {event.reason.summary}"
        case e.CandidateRestored():
            return f"{event.task}: its candidate is queued again"


def _reviewed(event: e.ReviewAnswered) -> str | None:
    result = event.result
    match result.outcome:
        case "passed" | "failed" if result.objections is not None:
            models, found = ", ".join(result.models), count_of(len(result.objections), "sentence")
            return f"{event.task}: {models} objects to {found if result.objections else 'nothing'} of its synthesis"
        case "passed" | "failed":
            found = f", {count_of(len(result.findings), 'finding')}" if result.findings else ""
            return f"{event.task}: {result.outcome} by {reviewer_words(result)}{found}"
        case "infrastructure" if result.batch is not None:
            return f"{event.task}: its review: {result.detail}" if result.batch.is_news else None
        case "infrastructure" if result.not_before is not None:
            return f"{event.task}: its review waits for a model's rate limit: {result.detail}"
        case "infrastructure":
            return f"{event.task}: no review yet: {result.detail}"
        case _:
            return None


def _of_paths(event: e.PathsGranted | e.PathsQueued | e.PathsRefused | e.LockExtended) -> str | None:
    match event:
        case e.PathsGranted():
            return f"{event.task}: may also change {shorten_list(event.paths)}, as it asked" if event.paths else None
        case e.PathsQueued():
            paths = shorten_list(event.paths)
            return f"{event.task}: waits to change {paths}, which it asked for: {event.why}"
        case e.PathsRefused():
            return f"{event.task}: may not change the paths it asked for: {event.why}"
        case e.LockExtended():
            return f"{event.task}: also locks {shorten_list(event.paths)}, which it changed without declaring"


def shorten_list(names: Sequence[str]) -> str:
    """Join the first five names, and count the rest."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _ended(event: e.Event) -> str | None:
    match event:
        case e.TaskReturned():
            free = "; retrying on the new tip (attempt not counted)" if event.free else ""
            climbs = f"; the next attempt is by model {event.rung} of its ladder" if event.rung else ""
            return f"{event.task}: returned: {event.reason.summary}{free}{climbs}"
        case e.TaskFailed():
            return f"{event.task}: failed: {event.reason.summary}"
        case e.TaskUnchanged() | e.TaskReported() | e.TaskAlreadyThere() | e.SurveyFound():
            return f"{event.task}: {_done(event)}"
        case e.TaskBlocked():
            return f"{event.task}: blocked: it {event.why}"
        case e.TaskParked():
            return f"{event.task}: waits for a person: {event.question}"
        case e.TaskCancelled():
            return f"{event.task}: cancelled" + (f" by {event.by}: {one_line(event.why)}" if event.by else "")
        case e.TaskRetried():
            if not event.afresh:
                return f"{event.task}: may continue"
            said = f"; {event.by or 'a person'} says: {one_line(event.note)}" if event.note else ""
            return f"{event.task}: will be tried again{f' with {event.model}' if event.model else ''}{said}"
        case e.TaskReplied():
            return f"{event.task}: answered{f' by {event.reply.by}' if event.reply.by else ''}; it continues"
        case _:
            return None


def _done(event: e.TaskUnchanged | e.TaskReported | e.TaskAlreadyThere | e.SurveyFound) -> str:
    if isinstance(event, e.SurveyFound):
        kept = f"kept from run {event.by_run}, which surveyed the same tree; no model is asked"
        old = f"corrects that of run {event.by_run}; files that differ since: {event.changed_count:,}"
        return kept if event.stands else old
    if isinstance(event, e.TaskUnchanged):
        return f"no changes ({event.why})"
    if isinstance(event, e.TaskReported):
        return f"reported: {one_line(event.report.summary)}"
    return f"already there, landed as {event.commit[:12]} by run {event.by_run}"


def _answered(event: e.OrderAnswered | e.WorkKept) -> str | None:
    if isinstance(event, e.WorkKept):
        kept = f"{event.task}: the files of attempt {event.attempt} are kept, unverified"
        return kept if event.commit or event.withheld else None
    result = event.result
    if result.outcome == "candidate":
        lost = f"; {result.detail}" if result.detail else ""
        files = count_of(len(result.paths), "file")
        return f"{event.task}: candidate {(result.commit or '')[:12]}, {files} changed{lost}"
    if result.outcome == "infrastructure" and result.not_before is not None and result.not_before <= result.finished_at:
        return f"{event.task}: waits: {result.detail}"
    if result.outcome == "infrastructure" and result.not_before is not None:
        return f"{event.task}: waits until {clock(result.not_before, result.finished_at)}: {result.detail}"
    if result.outcome == "infrastructure":
        return f"{event.task}: could not run: {result.detail} (attempt not counted)"
    return None


def _checked(event: e.CheckAnswered | e.CarDissolved) -> str | None:
    if isinstance(event, e.CarDissolved):
        # Without a trial nothing failed: an entry of the batch is held or frozen.
        parts = f"{together(event.suspects)} alone" if event.suspects else "them in parts"
        return f"{together(event.car)}: failed together; testing {parts}" if event.message_id else None
    result, car = event.result, event.car or (event.task,)
    behind = f", behind {together(event.ahead)}" if event.ahead else ""
    match result.verdict:
        case "green":
            flaky = f", flaky: {', '.join(flake.check for flake in result.flaky)}" if result.flaky else ""
            names = describe_checks(result.certificates)
            return f"{together(car)}: checks passed{behind} ({names}{flaky}){advice_words(result)}"
        case "infrastructure":
            return f"{together(car)}: checks could not run: {result.detail}"
        case "base_red":
            return f"{together(car)}: {result.detail}"
        case "red" | "findings" | "conflict" if behind or len(car) > 1:
            return f"{together(car)}: did not pass{behind}: {result.detail}"
        case _:
            return None


def advice_words(result: CheckResult) -> str:
    """Return what non-voting checks say against a result, as the end of a sentence; empty where they pass."""
    return "".join(f"; {advice.words}" for advice in result.advice if not advice.green)


def _landed(event: e.LandingAnswered) -> str:
    result, who = event.result, together(event.entries or (event.task,))
    if result.outcome == "landed":
        return f"{who}: landed as {(result.commit or '')[:12]}"
    return f"{who}: not landed yet, {result.detail}"


def together(tasks: tuple[str, ...]) -> str:
    """`a, b and c`."""
    return tasks[0] if len(tasks) == 1 else f"{', '.join(tasks[:-1])} and {tasks[-1]}"


def telling_lines(recorded: Recorded) -> tuple[str, ...]:
    """Return the first error lines of a failing check, or the first finding of a scan; none for any other event."""
    event = recorded.event
    if isinstance(event, e.WaveAnswered | e.CheckAnswered) and event.result.verdict == "base_red":
        return tuple(where_to_look(event.result))
    if not isinstance(event, e.TaskReturned | e.TaskFailed):
        return ()
    if event.reason.kind == "findings" and event.reason.findings:
        return event.reason.findings[:1]
    return tuple(line for line in error_lines(event.reason.log_tail) if line not in event.reason.summary)
