"""What a report says of reviews of what has landed as a whole: in front what stands against it, then each of them."""

from collections.abc import Iterator, Sequence

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.post_merge import approve_landings_command, list_unreviewed
from forgepool.orchestrator.decisions.reasons import count_of, finding_lines, reviewer_words
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import Recorded
from forgepool.orchestrator.state.run import RunState
from forgepool.supervisor.messages import Review


def describe_missing_review(course: PlanIndex, state: RunState) -> Iterator[str]:
    """That nobody has passed as a whole what has landed, though somebody was asked; nothing where all is well."""
    answer = state.wave_review.against
    unreviewed = list_unreviewed(state)
    if not (state.halted_by_review or answer is not None) or not unreviewed:
        return
    yield from ("", "## Not passed as a whole", "")
    landings = f"{count_of(len(unreviewed), 'landing')}: {', '.join(unreviewed)}"
    yield f"- {landings}; {approve_landings_command(state)}"
    if answer is not None:
        yield f"- {_outcome(answer)}"
        yield from (f"  - {line}" for line in finding_lines(answer, course.review_policy.threshold))
    else:
        yield f"- {state.halted}"


def describe_integration_reviews(course: PlanIndex, recorded: Sequence[Recorded]) -> Iterator[str]:
    """Every review that was asked for, with what it found, and every word of a person's."""
    answers = {
        one.event.result.request_id: one.event.result for one in recorded if isinstance(one.event, e.WaveReviewAnswered)
    }
    for one in recorded:
        match one.event:
            case e.WaveReviewSent() as sent:
                answer = answers.get(sent.message_id)
                said = "not answered" if answer is None else _outcome(answer)
                landings = count_of(len(sent.tasks), "landing")
                yield f"- review of {landings} as a whole, {sent.base[:12]}..{sent.tip[:12]}: {said}"
                found = finding_lines(answer, course.review_policy.threshold) if answer is not None else ()
                yield from (f"  - {line}" for line in found)
            case e.WaveApproved(by=by, tip=tip):
                yield f"- {by} answers for what has landed up to {tip[:12]}, as a whole"
            case _:
                pass


def _outcome(answer: Review) -> str:
    if answer.outcome in ("passed", "failed"):
        return f"{answer.outcome} by {reviewer_words(answer)}"
    return f"{answer.outcome}, {answer.detail or '; '.join(answer.voids)}"
