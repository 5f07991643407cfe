"""The change that events of post-merge checks and integration reviews make to the state."""

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IllegalStep


def send_integration_review(state: RunState, event: e.WaveReviewSent) -> None:
    if event.tip != state.tip or event.tip != state.wave.since:
        raise IllegalStep(f"{event.tip[:12]} is not reviewed as a whole before all checks are green on it")
    state.wave_review.note_sent(event, state.number + 1)


def approve_landings(state: RunState, event: e.WaveApproved) -> None:
    if event.tip != state.tip:
        raise IllegalStep(f"the target is at {state.tip[:12]}, not at {event.tip[:12]} as {event.by} has seen it")
    state.wave_review.approve(event, state.number + 1)
    if state.halted_by_review:
        state.halted, state.halted_by_review = "", False
