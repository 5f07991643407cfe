"""The slots of one machine are shared evenly among the queues that want them, and a queue gives up surplus ones."""

from collections.abc import Callable

from gate_world import after, decided, opened, submitted
from hypothesis import given
from hypothesis import strategies as st

from forgepool.orchestrator.journal.events import CheckSent
from forgepool.orchestrator.merge_queue.serve.multi import Claim, SharedSlots, keep_together, make_shared, places_for
from forgepool.orchestrator.run.loop import Ending
from forgepool.orchestrator.state.run import RunState

CLAIM = st.builds(Claim, running=st.integers(0, 5), wants=st.integers(0, 5), served=st.integers(0, 9))


def _claim(running: int, wants: int = 0, served: int = 0) -> Claim:
    return Claim(running=running, wants=wants, served=served)


def test_who_is_alone_has_all() -> None:
    assert places_for("a", 4, {"a": _claim(0)}) == 4
    assert places_for("a", 4, {"a": _claim(1), "b": _claim(0)}) == 4


def test_nobody_takes_the_place_that_another_has_waited_for() -> None:
    busy = {"a": _claim(3), "b": _claim(0, wants=2)}
    assert places_for("a", 4, busy) == 3
    assert places_for("b", 4, busy) == 1


def test_one_place_goes_round() -> None:
    """With fewer slots than queues, the queues take turns."""
    turns = {"a": _claim(0, wants=5, served=2), "b": _claim(0, wants=5, served=1)}
    assert (places_for("a", 1, turns), places_for("b", 1, turns)) == (0, 1)


@given(st.integers(0, 8), st.dictionaries(st.sampled_from("abcd"), CLAIM, min_size=1))
def test_all_together_never_have_more_than_there_are(total: int, claims: dict[str, Claim]) -> None:
    running = sum(claim.running for claim in claims.values())
    given_ = {name: places_for(name, total, claims) - claim.running for name, claim in claims.items()}
    for name, more in given_.items():
        assert 0 <= more <= max(0, total - running)
        if all(not claim.wants for other, claim in claims.items() if other != name):
            assert more == max(0, total - running), "a place that nobody else wants"


def test_what_a_gate_wants_is_forgotten_once_it_says_so_or_is_gone() -> None:
    """A queue that cannot report because of a failure must not keep slots from others."""
    places = SharedSlots(states={"a": opened(), "b": opened()})
    places.want("b", 1)
    places.serve("a")
    assert (places.of("a", 1), places.of("b", 1)) == (0, 1)
    places.want("b", 0)
    assert places.of("a", 1) == 1
    places.want("b", 1)
    places.leave("b")
    assert places.of("a", 1) == 1


def test_trials_that_run_are_counted() -> None:
    state = opened(submitted("one"))
    (sent,) = decided(state)
    assert isinstance(sent, CheckSent)
    places = SharedSlots(states={"a": after(state, sent), "b": opened()})
    assert (places.of("b", 3), places.of("a", 3)) == (2, 3)


class _Dying:
    """A Redis that has died twice."""

    def __init__(self) -> None:
        self.told = [["redis"], [], ["gate"]]

    def mend(self) -> list[str]:
        return self.told.pop() if self.told else []


def test_each_gate_hears_of_all_that_was_started_again() -> None:
    first, second = make_shared(_Dying(), 2)
    assert first is not None and second is not None
    heard: list[Callable[[], list[str]]] = [first.mend, second.mend, first.mend, second.mend]
    assert [hear() for hear in heard] == [["gate"], ["gate"], ["redis"], ["redis"]]


class _Gate:
    """Runs for this many turns, and then ends or raises."""

    def __init__(self, turns: int, trouble: Exception | None = None) -> None:
        self.state, self.turns, self.trouble, self.is_left = opened(), turns, trouble, False

    def step(self) -> Ending | None:
        assert not self.is_left
        self.turns -= 1
        if self.turns < 0 and self.trouble is not None:
            raise self.trouble
        return "interrupted" if self.turns < 0 else None

    def leave(self) -> None:
        self.is_left = True
        if self.trouble is not None:
            raise self.trouble


def test_what_nobody_foresaw_ends_one_gate_and_is_told_and_raised_after_the_others() -> None:
    """The others continue even if the failed queue cannot close properly."""
    fallen, others = _Gate(2, OSError("no disk")), [_Gate(5), _Gate(0)]
    told: list[tuple[RunState, str, int]] = []
    troubles = keep_together(
        [others[0], fallen, others[1]],
        lambda state, trouble: told.append((state, str(trouble), others[0].turns)),
    )
    assert [str(one) for one in troubles] == ["no disk", "no disk"]
    assert told == [(fallen.state, "no disk", 2)], "told at once, while the other goes on"
    assert fallen.is_left and all(one.is_left for one in others)
    assert keep_together([_Gate(1)], lambda state, trouble: None) == []
