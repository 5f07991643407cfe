"""The trials that get slots, compared with all possible trials."""

import math
from collections.abc import Sequence
from itertools import pairwise, product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from forgepool.supervisor.train.layout import lay_out
from forgepool.supervisor.train.model import (
    Ids,
    Scopes,
    Snapshot,
    StartTrial,
    TrainEntry,
    TrainPolicy,
    Trial,
    have_common,
)
from forgepool.supervisor.train.odds import SURE, Outlook, car_odds
from forgepool.supervisor.train.plan import plan

NAMES = "abcd"
SURPRISE = 0.02
NOBODYS = 0.01
SCOPES = st.none() | st.frozensets(st.sampled_from("xyz"), max_size=2)


def line(
    risks: list[float], *, needs: dict[str, str], trials: tuple[Trial, ...], slots: int, scopes: Sequence[Scopes] = ()
) -> Snapshot:
    cars = tuple(
        (TrainEntry(id=one, accepted=at, risk=risk, needs=tuple(needs.get(one, ())), scopes=of_one),)
        for at, (one, risk, of_one) in enumerate(zip(NAMES, risks, scopes or [None] * 4, strict=False))
    )
    return Snapshot(waiting=(), cars=cars, trials=trials, slots=slots, policy=TrainPolicy(hedge_above=0.12))


def related(seen: Snapshot, at: int) -> list[TrainEntry]:
    """Return the entries before it that share a scope with it, that it needs, or that these need."""
    (one,), wanted = seen.cars[at], set(seen.cars[at][0].needs)
    found = [other for (other,) in seen.cars[:at] if have_common(one.scopes, other.scopes)]
    wanted |= {need for other in found for need in other.needs}
    wanted |= {need for (other,) in seen.cars[:at] if other.id in wanted for need in other.needs}
    return [other for (other,) in seen.cars[:at] if other in found or other.id in wanted]


def related_to_each(seen: Snapshot) -> list[list[TrainEntry]]:
    return [related(seen, at) for at in range(len(seen.cars))]


def names(entries: list[TrainEntry]) -> set[str]:
    return {entry.id for entry in entries}


def all_paths(seen: Snapshot, at: int, red: Ids) -> list[tuple[float, Ids]]:
    """Return every set of earlier entries that may land, with its probability, the likeliest first."""
    before, found = related(seen, at), []
    for landing in product((True, False), repeat=len(before)):
        ahead, chance = Ids(), 1.0
        for entry, lands in zip(before, landing, strict=True):
            able = set(entry.needs) <= set(ahead)
            good = (1 - entry.risk) * (1 - SURPRISE)
            if lands:
                chance *= good * able
                ahead = (*ahead, entry.id)
                chance *= NOBODYS if red and entry.id == red[-1] and set(red) <= set(ahead) else 1
            elif able:
                chance *= 1 - good
        if chance:
            found.append((chance, ahead))
    total = sum(chance for chance, _ in found)
    able = [(chance / total, ahead) for chance, ahead in found if set(seen.cars[at][0].needs) <= set(ahead)]
    return sorted(able, key=lambda path: -path[0])


def expected(seen: Snapshot, red: Ids) -> set[tuple[Ids, str]]:
    """Return the likeliest path of each batch in order, then the others by likelihood, until the slots are used."""
    wanted, hedges = list[tuple[Ids, str]](), list[tuple[float, Ids, str]]()
    for at, (entry,) in enumerate(seen.cars):
        (chance, ahead), *others = all_paths(seen, at, red)
        if (chance >= 0.1 or not ahead) and (*ahead, entry.id) != red:
            wanted.append((ahead, entry.id))
        for each, other in others:
            if each >= seen.policy.hedge_above and (*other, entry.id) != red:
                hedges.append((each, other, entry.id))
    hedges.sort(key=lambda hedge: -hedge[0])
    return set((wanted + [(ahead, one) for _, ahead, one in hedges])[: seen.slots])


def funded(seen: Snapshot) -> set[tuple[Ids, str]]:
    """Return all trials that are started when the plan is asked until it has no more actions."""
    trials = list(seen.trials)
    while actions := plan(
        Snapshot(waiting=(), cars=seen.cars, trials=tuple(trials), slots=seen.slots, policy=seen.policy)
    ):
        for action in actions:
            assert isinstance(action, StartTrial)
            trials.append(Trial(id=f"t{len(trials)}", ahead=action.ahead, car=action.car, decisive=action.decisive))
    return {(trial.ahead, trial.car[0]) for trial in trials if trial.state == "running"}


@settings(max_examples=150)
@given(
    risks=st.lists(st.integers(1, 90).map(lambda per: per / 101), min_size=1, max_size=4, unique=True),
    needs=st.dictionaries(st.sampled_from("bcd"), st.sampled_from("abc"), max_size=1),
    red=st.sampled_from(("", "ab", "abc", "ac")),
    slots=st.integers(1, 6),
    scopes=st.lists(SCOPES, min_size=4, max_size=4) | st.just([None] * 4),
)
def test_a_likelier_path_is_left_for_another(
    risks: list[float], needs: dict[str, str], red: str, slots: int, scopes: list[Scopes]
) -> None:
    """For up to four batches, slots go to the likeliest path of each, and then to the likeliest of the others."""
    assume(all(need < one for one, need in needs.items()))
    assume(len(red) <= len(risks) and set(red) <= set(NAMES[: len(risks)]))
    assume(not any(need not in red for one, need in needs.items() if one in red))
    trials = (Trial(id="red", ahead=tuple(red[:-1]), car=(red[-1],), state="red"),) if red else ()
    seen = line(risks, needs=needs, trials=trials, slots=slots, scopes=scopes)
    # Of a red whose cars are not all related to one behind it, that one goes by less than all that is known.
    assume(all(set(red) <= ids or not red or red[-1] not in ids for ids in map(names, related_to_each(seen))))
    paths = [all_paths(seen, at, tuple(red)) for at in range(len(seen.cars))]
    assume(all(paths))
    every = sorted(chance for each in paths for chance, _ in each)
    assume(all(high - low > 1e-9 for low, high in pairwise(every) if high < 1))
    assume(all(len({chance for chance, _ in each}) == len(each) for each in paths))
    assume(all(abs(chance - edge) > 1e-9 for chance in every for edge in (0.1, seen.policy.hedge_above)))
    assert funded(seen) == expected(seen, tuple(red))


def test_a_red_is_held_against_the_last_alone() -> None:
    """If entries ahead of a red one are undecided, each may be bad; one that was green in a trial hardly is."""
    seen = line([0.01, 0.08], needs={}, slots=1, trials=(Trial(id="1", ahead=("a",), car=("b",), state="red"),))
    first, last = car_odds(lay_out(seen))
    assert first == pytest.approx(0.99 * 0.98)
    good = 0.92 * 0.98
    assert last == pytest.approx(good * (1 - first) / (1 - good * first))


def test_a_red_that_a_green_contradicts_is_believed() -> None:
    """If all its batches were green together, a red is not held against any of them."""
    trials = (
        Trial(id="1", ahead=("a",), car=("b",), state="red"),
        Trial(id="2", ahead=("a", "b"), car=("c",), state="green"),
    )
    assert car_odds(lay_out(line([0.01, 0.4, 0.1], needs={}, slots=1, trials=trials))) == [0.99 * 0.98, SURE, SURE]


@pytest.mark.parametrize("state", ["timeout", "running", "stopping"])
def test_no_answer_lowers_the_odds(state: str) -> None:
    """A timeout says nothing about a batch."""
    trials = (Trial(id="1", ahead=("a",), car=("b",), state=state),)  # type: ignore[arg-type]  # of its states
    assert car_odds(lay_out(line([0.1, 0.2], needs={}, slots=1, trials=trials))) == [0.9 * 0.98, 0.8 * 0.98]


def test_the_paths_of_a_long_line_have_no_chance() -> None:
    """However long the queue, each batch has a likeliest path, and the probabilities sum to at most one."""
    cars = tuple((TrainEntry(id=f"e{at}", accepted=at, risk=0.45),) for at in range(1200))
    outlook = Outlook(lay_out(Snapshot(waiting=(), cars=cars, trials=(), slots=4)))
    for at in range(len(cars)):
        paths = outlook.paths(at)
        assert paths[0].ahead == (1 << at) - 1
        assert math.fsum(path.chance for path in paths) == pytest.approx(1)
