"""The report of a run in plain text, derived from the journal alone."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from forgepool.orchestrator.decisions.lead.review import synthesis_lines
from forgepool.orchestrator.decisions.orders.kept_work import list_kept
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reasons import (
    author_in,
    author_words,
    count_of,
    finding_lines,
    one_line,
    reviewer_words,
    survey_words,
)
from forgepool.orchestrator.decisions.reviews.post_merge import approve_landings_command, list_unreviewed, where_to_look
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import Recorded, is_being_written
from forgepool.orchestrator.reports.attention import Liveness, attention
from forgepool.orchestrator.reports.costs import (
    bill,
    bill_waste,
    bill_words,
    budget_words,
    compare_forecast,
    describe_ladders,
    usd_words,
)
from forgepool.orchestrator.reports.event_text import answer_with
from forgepool.orchestrator.reports.leftovers import LogIndex
from forgepool.orchestrator.reports.status import Waits, tell_verdict
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import DONE, TERMINAL, TaskState
from forgepool.supervisor.checks.results.flakes import Score, Sighting, scores
from forgepool.supervisor.messages.answers import CheckResult, Review
from forgepool.workers.schema.confinement import LEVEL_WORDS, Level
from forgepool.workers.schema.error_lines import error_lines
from forgepool.workers.workspace.scans.findings import finding_words


def describe_missing_review(course: PlanIndex, state: RunState) -> Iterator[str]:
    """Yield a section where no integration review has passed what landed."""
    answer = state.wave_review.against
    unreviewed = list_unreviewed(state)
    if not (state.halted_by_review or answer is not None) or not unreviewed:
        return
    yield from ("", "## Integration review not passed", "")
    landings = f"{count_of(len(unreviewed), 'landing')}: {', '.join(unreviewed)}"
    yield f"- {landings}; {approve_landings_command(state)}"
    if answer is not None:
        yield f"- {_outcome(answer)}"
        yield from (f"  - {line}" for line in finding_lines(answer, course.review_policy.threshold))
    else:
        yield f"- {state.halted}"


def describe_integration_reviews(course: PlanIndex, recorded: Sequence[Recorded]) -> Iterator[str]:
    """Yield each integration review with its findings, and each person's approval."""
    answers = {
        record.event.result.request_id: record.event.result
        for record in recorded
        if isinstance(record.event, e.WaveReviewAnswered)
    }
    for one in recorded:
        match one.event:
            case e.WaveReviewSent() as sent:
                answer = answers.get(sent.message_id)
                said = "not answered" if answer is None else _outcome(answer)
                landings = count_of(len(sent.tasks), "landing")
                yield f"- integration review of {landings}, {sent.base[:12]}..{sent.tip[:12]}: {said}"
                found = finding_lines(answer, course.review_policy.threshold) if answer is not None else ()
                yield from (f"  - {line}" for line in found)
            case e.WaveApproved(by=by, tip=tip):
                yield f"- {by} approved everything landed up to {tip[:12]}"
            case _:
                pass


def _outcome(answer: Review) -> str:
    if answer.outcome in ("passed", "failed"):
        return f"{answer.outcome} by {reviewer_words(answer)}"
    return f"{answer.outcome}, {answer.detail or '; '.join(answer.voids)}"


def flake_scores(recorded: Sequence[Recorded]) -> tuple[Score, ...]:
    """
    Score every test that was flaky in this run, the worst first.

    The journal does not say which tests ran, so each counts as run whenever its check was.
    """
    results = [record.event.result for record in recorded if isinstance(record.event, e.CheckAnswered | e.WaveAnswered)]
    flaked = {(flake.check, test) for result in results for flake in result.flaky for test in flake.tests or ("",)}
    return scores(
        Sighting(check=check, test=test, flaked=_flaked(result, check, test))
        for check, test in sorted(flaked)
        for result in results
        if check in _run(result)
    )


def flake_lines(recorded: Sequence[Recorded]) -> Iterator[str]:
    found = flake_scores(recorded)
    if found:
        yield from ("", "## Flaky: failed, then passed, on the same tree", "")
    for one in found:
        test = f" {one.test}" if one.test else ""
        yield f"- {one.check}{test}: {one.flakes} of {one.runs} runs ({one.share:.0%})"


def _run(result: CheckResult) -> set[str]:
    """Return the checks that ran for this answer, not taken from an earlier one."""
    green = {certificate.check for certificate in result.certificates if not certificate.reused}
    return green | {failure.check for failure in result.failures} | {flake.check for flake in result.flaky}


def _flaked(result: CheckResult, check: str, test: str) -> bool:
    return any(flake.check == check and test in (flake.tests or ("",)) for flake in result.flaky)


def report_lines(
    kept: KeptRun, state: RunState, recorded: Sequence[Recorded], *, public: bool = False
) -> Iterator[str]:
    """
    Yield the lines of the report: what landed with which proof, what did not and why, and who did what. For the public,
    without hosts, the hub, logs and commands that name them.
    """
    landed = sorted(state.in_phase("landed"), key=lambda task: task.ended)
    idle = state.in_phase("no_changes", "already_there")
    others = [task for task in state.tasks.values() if task.phase not in DONE]
    yield f"# {kept.plan.name}: {tell_verdict(kept.course, state)}"
    yield ""
    hub = "" if public else f" hub {state.hub},"
    yield f"run {state.run},{hub} target at {state.tip[:12]}, {_span(recorded)}"
    yield from _synthesis(kept.course, state)
    yield from _wanted(kept.course, state, live=is_being_written(kept.folder))
    yield from describe_missing_review(kept.course, state)
    if landed:
        yield from ("", "## Landed, in this order", "")
        for task in landed:
            yield f"- {task.id} as {task.commit[:12]}: {_proof(task, public)}{_attempts(task)}"
            yield from _history(task)
            yield from _looked_at(kept.course, state, task)
            yield from _used(task)
    yield from _reported(kept.course, state)
    if idle:
        yield from ("", "## Nothing to do", "")
        for task in idle:
            yield f"- {task.id}: {_why_idle(task)}{_attempts(task)}"
            yield from _history(task)
            yield from _lacked(task)
            yield from _used(task)
    if others:
        yield from ("", "## Not landed", "")
        logs = LogIndex(kept.folder, recorded)
        waits = Waits(kept.course, state, live=is_being_written(kept.folder))
        for task in others:
            yield f"- {task.id} ({waits.phase_name(task)}): {_how_it_stands(waits, task, public)}"
            if task.question:
                yield f"  - it asks a person; {answer_with(state.run, task.id)}"
            yield from _reasons(task, public)
            yield from () if public else _leavings(kept, state, logs, task)
            yield from _looked_at(kept.course, state, task)
            yield from _used(task)
    yield from _target(kept.course, recorded, public)
    yield from flake_lines(recorded)
    yield from _bill(kept, state, recorded)
    if not public:
        yield from ("", "## Hosts", "")
        yield from host_lines(recorded)


def _synthesis(course: PlanIndex, state: RunState) -> Iterator[str]:
    lines = [*synthesis_lines(course, state)]
    if lines:
        yield from ("", "## Synthesis", "", *lines)
    elif course.lead is not None and state.tasks[course.lead].phase in TERMINAL:
        yield from ("", f"No synthesis: '{course.lead}', which led the run, is {state.tasks[course.lead].phase}.")


def _wanted(course: PlanIndex, state: RunState, *, live: bool) -> Iterator[str]:
    wanted = attention(course, state, Liveness(live=live, now=state.at))
    if wanted:
        yield from ("", "## Waits for you", "")
    for one in wanted:
        yield f"- {one.about}: {' '.join(one.sentence.split())}: `{one.command}`"


def _lacked(task: TaskState) -> Iterator[str]:
    yield from (f"  - lacked: {one_line(gap)}" for gap in task.missing)


def _reported(course: PlanIndex, state: RunState) -> Iterator[str]:
    """Yield the section of the tasks that answered."""
    tasks = sorted(state.in_phase("reported"), key=lambda task: task.ended)
    if tasks:
        yield from ("", "## Reported", "")
    for task in tasks:
        yield f"- {task.id}: {one_line(task.detail)}{_attempts(task)}"
        yield from _history(task)
        cited = count_of(len(task.report.evidence) if task.report else 0, "citation")
        yield f"  - by {author_words(author_in(course, state, task))}; the answer, with {cited}: results/{task.id}.md"
        yield from _lacked(task)
        yield from _used(task)


def _how_it_stands(waits: Waits, task: TaskState, public: bool) -> str:
    if task.phase in TERMINAL or public:
        how = task.detail or ("interrupted" if task.attempt else "not begun")
        return f"{how}{survey_words(waits.course, task)}"
    return waits.reason(task)


def _why_idle(task: TaskState) -> str:
    if task.phase == "already_there":
        return f"already there, {task.detail} as {task.commit[:12]}"
    return f"no changes ({task.detail})"


def _looked_at(course: PlanIndex, state: RunState, task: TaskState) -> Iterator[str]:
    """Yield who wrote a candidate and what they lacked, who reviewed it, and what they and the scans found."""
    if task.result is not None:
        yield f"  - by {author_words(author_in(course, state, task))}"
    yield from _lacked(task)
    for one in task.verdict.advice if task.verdict else ():
        yield f"  - check {one.words}"
    if task.told is not None and task.phase == "landed":
        yield f"  - landed by {task.told.gate}, as its entry {task.told.entry}{_because(task.told.why)}"
        yield from (f"    - {proof}" for proof in task.told.proofs)
    for found in task.verdict.findings if task.verdict else ():
        yield f"  - scan, {found.weight}: {finding_words(found)}"
    answer, person = task.review.answer, task.review.person
    if answer is not None and answer.outcome in ("passed", "failed"):
        yield f"  - review: {answer.outcome} by {reviewer_words(answer)}"
    elif answer is not None:
        yield f"  - review: {answer.outcome}, {answer.detail or '; '.join(answer.voids)}"
    for line in finding_lines(answer, course.review_policy.threshold) if answer else ():
        yield f"    - {line}"
    if person is not None:
        yield f"  - approved by {person.by}, for {person.commit[:12]}"


def _because(why: str) -> str:
    return f": {why}" if why else ""


def _target(course: PlanIndex, recorded: Sequence[Recorded], public: bool) -> Iterator[str]:
    """Yield the section on the target: tests that failed before the run, checks and reviews of the whole."""
    checked = [record.event.result for record in recorded if isinstance(record.event, e.CheckAnswered)]
    red = dict.fromkeys(test for result in checked for test in result.red_base)
    waves = [one.event for one in recorded if isinstance(one.event, e.WaveSent)]
    as_a_whole = list(describe_integration_reviews(course, recorded))
    if not red and not waves and not as_a_whole:
        return
    yield from ("", "## The target", "")
    if red:
        yield f"- {count_of(len(red), 'failure')} there before this run, not counted: {', '.join(list(red)[:20])}"
    for wave in waves:
        answers = [one.event.result for one in recorded if isinstance(one.event, e.WaveAnswered)]
        result = next((answer for answer in answers if answer.request_id == wave.message_id), None)
        said = "not answered" if result is None else f"{result.verdict}{': ' if result.detail else ''}{result.detail}"
        traced = "".join(one.traced_words for one in result.certificates) if result is not None else ""
        since = f"after {count_of(len(wave.tasks), 'landing')} since {wave.since[:12]}"
        yield f"- all checks on {wave.base[:12]}, {since if wave.tasks else 'before the first landing'}: {said}{traced}"
        yield from (f"  - {line}" for line in (where_to_look(result) if result is not None and not public else ()))
    yield from as_a_whole


def _used(task: TaskState) -> Iterator[str]:
    said = bill_words(bill((*task.uses.values(), *task.review.uses.values())))
    if said:
        yield f"  - {said}"
    by_reviews = bill(task.review.uses.values())
    if by_reviews.counts:
        yield f"    - of that, by reviews: {bill_words(by_reviews)}"


def _bill(kept: KeptRun, state: RunState, recorded: Sequence[Recorded]) -> Iterator[str]:
    """Yield the sections on models and budget, and on the forecast; nothing where there is nothing to say."""
    whole = bill(state.uses())
    budget = list(budget_words(kept.course.ledger(state)))
    said = bill_words(whole)
    if said or budget:
        yield from ("", "## Models", "")
    if said:
        yield f"- total: {said}"
    wasted = bill_waste((*state.tasks.values(), *state.removed.values()))
    if wasted.counts:
        yield f"  - of that, by attempts that did not land: {bill_words(wasted)}"
    of_waves = bill(state.wave_review.review.uses.values())
    if of_waves.counts:
        yield f"  - of that, by integration reviews: {bill_words(of_waves)}"
    landed = len(state.in_phase("landed"))
    if landed and whole.cost_usd:
        yield f"- for each landed task: {usd_words(whole.cost_usd / landed)} USD"
    yield from (f"- {line}" for line in describe_ladders(kept.course, state, recorded))
    if whole.unpriced_attempts:
        known = f"{count_of(whole.unpriced_attempts, 'attempt')} by models without a known price"
        yield f"- {known}: each counts against a USD budget with its full reservation"
    for one in budget:
        yield f"- budget: {one}"
    if compared := [*compare_forecast(state, _seconds(recorded))]:
        yield from ("", "## Forecast", "", *(f"- {line}" for line in compared))


def _seconds(recorded: Sequence[Recorded]) -> float:
    return max(0.0, recorded[-1].at - recorded[0].at) if recorded else 0.0


def _span(recorded: Sequence[Recorded]) -> str:
    return f"{_seconds(recorded):.1f} s from first to last event" if recorded else "not begun"


def _proof(task: TaskState, public: bool) -> str:
    if not task.certificates and task.told is not None:
        return f"accepted by {task.told.gate}"
    if not task.certificates:
        return "no checks were requested (`checks: none`)"
    trees = [one.tree for one in task.certificates]
    tree = next((one for one in trees if not one.startswith("part-")), trees[0])[:12]
    checks = ", ".join(
        f"{one.check} {one.seconds:.1f} s{'' if public else f' on {one.host}'}{one.traced_words}"
        for one in task.certificates
    )
    return f"green on tree {tree} ({checks})"


def _attempts(task: TaskState) -> str:
    mended = f", which mended attempt {task.result.mended}" if task.result and task.result.mended else ""
    return f", attempt {task.attempt}{mended}" if task.attempt > 1 else ""


def _history(task: TaskState) -> Iterator[str]:
    yield from (f"  - attempt {reason.attempt}: {reason.summary}" for reason in task.reasons)
    yield from _notes(task)


def _notes(task: TaskState) -> Iterator[str]:
    """Yield the words of people that came with a retry."""
    notes = (reply for reply in task.replies if not reply.question)
    yield from (f"  - {note.by or 'a person'} said: {one_line(note.answer)}" for note in notes)


def _reasons(task: TaskState, public: bool) -> Iterator[str]:
    for reason in task.reasons:
        said = "" if reason.summary == task.detail else f": {reason.summary}"
        yield f"  - attempt {reason.attempt}{said}"
        for found in reason.findings:
            yield f"    - {found}"
        if not all(test in reason.summary for test in reason.tests[:10]):
            yield f"    red: {', '.join(reason.tests[:10])}"
        if reason.reproduce and not public:
            yield f"    see it again: {reason.reproduce}"
        for line in error_lines(reason.log_tail, 6):
            yield f"    | {line}"
    yield from _notes(task)


def _leavings(kept: KeptRun, state: RunState, logs: LogIndex, task: TaskState) -> Iterator[str]:
    """Yield the refs that keep a task's files, the folder of its newest logs, and the command that shows all logs."""
    yield from (f"  - kept: {one.words}" for one in list_kept(state, task))
    found = logs.logs(task.id)
    if found:
        last = found[-1]
        place = str(last.path.parent) if last.here else f"{last.path} on {last.host}"
        yield f"  - logs: {place} (all of them: forgepool logs {kept.options.run} {task.id})"


def host_lines(recorded: Sequence[Recorded]) -> Iterator[str]:
    """Yield what each host did, and how many messages were lost."""
    did: dict[str, Counter[str]] = defaultdict(Counter)
    held: dict[str, set[Level]] = defaultdict(set)
    lost = 0
    for record in recorded:
        match record.event:
            case e.OrderAnswered(result=result):
                did[result.host]["order"] += 1
                held[result.host] |= {result.sandbox} if result.sandbox else set()
            case e.CheckAnswered(result=result):
                did[result.host]["check run"] += 1
                held[result.host] |= {result.sandbox} if result.sandbox else set()
            case e.WaveAnswered(result=result):
                did[result.host]["check run"] += 1
            case e.ReviewAnswered(result=result) | e.WaveReviewAnswered(result=result):
                did[result.host]["review"] += 1
            case e.LandingAnswered(result=result):
                did[result.host]["landing"] += 1
            case e.MessageLost():
                lost += 1
            case _:
                pass
    for host in sorted(set(did) - {""}):
        nouns = ("order", "check run", *(("review",) if did[host]["review"] else ()), "landing")
        work = ", ".join(count_of(did[host][noun], noun) for noun in nouns)
        yield f"- {host}: {work}" + "".join(f"; {LEVEL_WORDS[level]}" for level in sorted(held[host]))
    if lost:
        yield f"- lost with their workers and repeated: {count_of(lost, 'message')}"
