"""A landing that failed: results stay green where the hub could not be asked, and only there."""

from collections.abc import Sequence

from gate_world import after, commit, decided, green, landing, opened, submitted

from forgepool.orchestrator.journal.events import CheckSent, Event, LandingIntended
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import MOST_TROUBLES


def _landing() -> tuple[RunState, LandingIntended]:
    state = opened(submitted("a"))
    (sent,) = decided(state)
    assert isinstance(sent, CheckSent)
    (intended,) = _only(LandingIntended, decided(after(state, sent, green(sent))))
    return after(state, intended), intended


def _only(kind: type[LandingIntended], events: Sequence[Event]) -> list[LandingIntended]:
    assert all(isinstance(one, kind) for one in events), events
    return [one for one in events if isinstance(one, kind)]


def test_a_hub_in_trouble_is_asked_less_and_less_often_and_nothing_is_checked_again() -> None:
    state, intended = _landing()
    pauses, now = [], 100.0
    for _ in range(MOST_TROUBLES - 1):
        after(state, landing(intended, "infrastructure"), at=now)
        pauses.append(state.tasks["a"].not_before - now)
        assert decided(state, now=now) == []
        now = state.tasks["a"].not_before
        (intended,) = _only(LandingIntended, decided(state, now=now))
        after(state, intended, at=now)
    assert pauses == sorted(pauses) and pauses[-1] > 10 * pauses[0]
    after(state, landing(intended, "infrastructure"), at=now)
    assert [one.kind for one in decided(state, now=now + 1000)] == ["task.parked"]


def test_a_target_that_somebody_moved_wants_everything_checked_again() -> None:
    state, intended = _landing()
    after(state, landing(intended, "moved", at=commit("elsewhere")))
    (sent,) = decided(state)
    assert isinstance(sent, CheckSent) and sent.base == commit("elsewhere")
