"""Scenarios of the merge train that need only the planner: checks wait, and answer one by one."""

import pytest
from holding import Held

from forgepool.supervisor.train.model import Cancel, Couple, Land, StartTrial, TrainEntry, TrainPolicy, Trial
from forgepool.supervisor.train.plan import plan


def test_one_alone_is_coupled_tried_and_landed() -> None:
    """A serial queue is a train with one slot: each entry is put in a batch, tried on the tip, and landed."""
    line, said = Held(slots=1), []
    line.enter("a", plans=False)
    while actions := line.plan():
        said += actions
        for action in actions:
            line.do(action)
            if isinstance(action, StartTrial):
                line.line.answer("t1", "green")
    assert said == [Couple(entries=("a",), at=0), StartTrial(ahead=(), car=("a",), decisive=True), Land(trial="t1")]


def test_three_entries_are_tried_at_once() -> None:
    """Each is tried on top of those before it, and they land in order."""
    line = Held()
    line.enter("abc")
    assert line.running == ["ab|c", "a|b", "|a"]
    line.green("|a")
    line.green("|b")
    line.green("|c")
    assert line.moves == ["a", "b", "c"]


def test_those_behind_a_red_head_start_again_without_it() -> None:
    """They start at once, and the head is returned once."""
    line = Held()
    line.enter("abc")
    line.red("|a")
    assert line.returned == ["a"]
    assert line.running == ["b|c", "|b"]


def test_a_red_in_the_middle_restarts_only_those_behind_it() -> None:
    line = Held()
    line.enter("abcd", risk=0.05)
    head = line.trial("|a")
    line.green("|a")
    line.red("|b")
    assert line.moves == ["a"]
    assert line.returned == []
    assert {"c|d", "|b", "|c"} <= set(line.running)
    assert head.id not in line.line.trials
    line.red("|b")
    assert line.returned == ["b"]


def test_a_red_behind_a_bad_head_is_tried_again() -> None:
    """It is returned only if it fails without the bad head, too."""
    line = Held()
    line.enter("abc")
    line.red("a|b")
    assert line.returned == []
    assert "a|c" in line.running, "entries behind the suspect are tried without it at once"
    line.red("|a")
    assert line.returned == ["a"]
    assert line.running == ["b|c", "|b"]
    line.green("|b")
    line.green("|c")
    assert line.moves == ["b", "c"]


def test_a_second_answer_about_a_returned_entry_changes_nothing() -> None:
    line = Held()
    line.enter("ab")
    first = line.trial("|a").id
    line.red("|a")
    line.line.answer(first, "red")
    line.settle()
    assert line.returned == ["a"]
    assert line.started.count("|b") == 1


def test_a_red_at_the_end_touches_no_other_entry() -> None:
    line = Held(policy=TrainPolicy(hedge_above=0.9))
    line.enter("abc")
    before = [line.trial("|a"), line.trial("a|b")]
    line.red("ab|c")
    assert [line.trial("|a"), line.trial("a|b")] == before
    assert line.cancelled == []


@pytest.mark.parametrize(("later_passes", "moves"), [(True, ["abc"]), (False, [])])
def test_a_green_trial_lands_those_ahead_only_where_the_policy_allows_it(later_passes: bool, moves: list[str]) -> None:
    """With `later_passes`, a green trial of `abc` lands `a` and `b`, whose own trials still run."""
    line = Held(policy=TrainPolicy(later_passes=later_passes))
    line.enter("abc")
    line.green("ab|c")
    assert line.moves == moves


def test_green_followers_of_a_slow_head_land_with_it_in_one_move() -> None:
    line = Held(policy=TrainPolicy(later_passes=False))
    line.enter("abc")
    line.green("a|b", "ab|c")
    assert line.moves == []
    line.green("|a")
    assert line.moves == ["abc"]


def test_fewer_slots_cancel_the_least_likely_trials() -> None:
    """The order of the entries stays."""
    line = Held(slots=4)
    line.enter("abcd")
    line.slots = 2
    line.settle()
    assert line.cancelled == ["abc|d", "ab|c"]
    assert line.running == ["a|b", "|a"]
    assert line.cars == ["a", "b", "c", "d"]


def test_an_arrival_cancels_nothing_that_runs() -> None:
    """This holds even where all slots are taken."""
    line = Held(slots=2)
    line.enter("ab")
    line.enter("cdef", risk=0.001)
    line.enter("g", klass="low")
    assert line.cancelled == []
    assert line.running == ["a|b", "|a"]


def test_a_hedge_that_came_true_lands_without_another_trial() -> None:
    """`b` was green without `a` before `a` turned out red."""
    line = Held(policy=TrainPolicy(hedge_above=0.1), surprise=0.0)
    line.enter("ab", risk=0.19)
    assert "|b" in line.running, "slots are idle, and the head may well be red"
    line.green("|b")
    assert line.moves == []
    started = list(line.started)
    line.red("|a")
    assert line.moves == ["b"]
    assert line.started == started


def test_no_slot_is_spent_on_an_unlikely_hedge() -> None:
    line = Held(policy=TrainPolicy(hedge_above=0.35))
    line.enter("ab")
    assert line.running == ["a|b", "|a"]


def test_a_cancelled_trial_keeps_its_slot_until_it_has_stopped() -> None:
    """No other trial is cancelled in its place."""
    line = Held(slots=2, stops_late=True)
    line.enter("abcd", risk=0.05)
    line.slots = 1
    line.settle()
    line.slots = 2
    line.settle()
    assert len(line.cancelled) == 1
    assert len(line.running) == 1
    line.stopped()
    assert len(line.running) == 2


def test_those_that_need_a_red_entry_are_named() -> None:
    """`b` is tried only behind `a`, which it needs. The caller takes it out once `a` is red."""
    line = Held()
    line.enter("a")
    line.enter("b", needs="a")
    line.enter("c")
    assert line.running == ["ab|c", "a|b", "|a"]
    assert line.line.needing("a") == ("b",)
    line.line.answer(line.trial("|a").id, "red")
    line.line.leave(line.line.needing("a"))
    line.settle()
    assert line.returned == ["a"]
    assert line.running == ["|c"]


def test_an_entry_is_not_tried_without_what_it_needs() -> None:
    """While `a` is suspect, the trial of `c` leaves out both `a` and `b`, and `b` waits."""
    line = Held(policy=TrainPolicy(hedge_above=0.9))
    line.enter("x")
    line.enter("a", risk=0.15)
    line.enter("b", needs="a")
    line.enter("c")
    line.red("x|a")
    assert "x|c" in line.running
    assert not [spec for spec in line.started if "b" in spec and "a" not in spec]


def test_an_entry_goes_behind_what_it_needs() -> None:
    """The order of arrival does not matter, and they may share a batch."""
    line = Held(slots=1)
    line.enter("c", needs="b", plans=False)
    line.enter("b", needs="a", plans=False)
    line.enter("a")
    assert line.running == ["|abc"]


def test_a_cycle_of_needs_holds_up_no_other_entry() -> None:
    """The entries of the cycle are never tried."""
    line = Held()
    line.enter("a", needs="b", plans=False)
    line.enter("b", needs="a", plans=False)
    line.enter("c", plans=False)
    line.enter("d", needs="d")
    line.green("|c")
    assert line.moves == ["c"]
    assert line.running == []


def test_a_need_that_is_not_queued_is_not_waited_for() -> None:
    line = Held()
    line.enter("b", needs="a")
    assert line.running == ["|b"]


def test_the_one_bad_entry_of_a_car_is_returned_and_the_others_land() -> None:
    """The batch is halved, and the first half is tried first."""
    line = Held(slots=1)
    line.enter("abcd")
    line.red("|abcd")
    assert line.cars == ["ab", "cd"]
    line.green("|ab")
    line.red("|cd")
    line.red("|c")
    line.green("|d")
    assert (line.moves, line.returned) == (["ab", "d"], ["c"])


def test_two_bad_entries_in_different_halves_are_both_returned() -> None:
    line = Held(slots=1)
    line.enter("abcd")
    line.red("|abcd")
    line.red("|ab")
    line.red("|cd")
    line.red("|a")
    line.green("|b")
    line.red("|c")
    line.green("|d")
    assert (line.moves, line.returned) == (["b", "d"], ["a", "c"])


def test_of_a_pair_that_fails_together_in_one_car_the_younger_is_returned() -> None:
    line = Held(slots=1)
    line.enter("ab")
    line.red("|ab")
    line.green("|a")
    line.red("|b")
    assert (line.moves, line.returned) == (["a"], ["b"])


def test_of_a_pair_that_fails_together_in_two_cars_the_younger_is_returned() -> None:
    """It is returned once it fails on the landed older one."""
    line = Held()
    line.enter("ab")
    line.red("a|b")
    assert line.returned == []
    line.green("|a")
    assert line.returned == [], "an entry that was red behind another is tried alone before it is blamed"
    line.red("|b")
    assert (line.moves, line.returned) == (["a"], ["b"])


def test_of_three_that_fail_only_together_the_last_is_returned() -> None:
    line = Held(slots=1)
    line.enter("abc")
    line.red("|abc")
    line.green("|ab")
    line.red("|c")
    assert (line.moves, line.returned) == (["ab"], ["c"])


def test_a_red_that_turns_green_on_the_same_tree_returns_no_entry() -> None:
    line = Held()
    line.enter("ab")
    line.red("a|b")
    line.green("|a")
    line.green("|b")
    assert (line.moves, line.returned) == (["a", "b"], [])


def test_a_red_car_whose_entries_are_all_green_returns_none() -> None:
    """Each entry lands alone."""
    line = Held(slots=1)
    line.enter("ab")
    line.red("|ab")
    line.enter("c")
    line.green("|a")
    line.green("|b")
    line.green("|c")
    assert (line.moves, line.returned) == (["a", "b", "c"], [])


def test_an_entry_marked_single_shares_no_car() -> None:
    """Entries of a red batch are marked single."""
    line = Held(slots=1)
    line.line.enter(TrainEntry(id="a", accepted=0, risk=0.01, single=True))
    line.enter("bc")
    assert line.running == ["|a"]
    line.green("|a")
    assert line.running == ["|bc"]
    line.red("|bc")
    assert all(one.single for one in line.line.entries.values())


def test_a_car_is_no_longer_than_policy_and_risk_allow() -> None:
    line = Held(slots=1, policy=TrainPolicy(most=3))
    line.enter("abcdefgh")
    assert line.running == ["|abc"]
    risky = Held(slots=1)
    risky.enter("abcdefgh", risk=0.25)
    assert risky.running == ["|ab"]


def test_only_the_entry_that_conflicts_leaves_its_car() -> None:
    line = Held(slots=1)
    line.enter("abcd")
    line.red("|abcd", clash="c")
    assert line.cars == ["abd", "c"]
    assert line.returned == []
    line.green("|abd")
    line.red("|c", clash="c")
    assert (line.moves, line.returned) == (["abd"], ["c"])


def test_an_entry_that_conflicts_with_the_tip_is_returned_at_once() -> None:
    """Its batch goes on without it."""
    line = Held(slots=1)
    line.enter("abc")
    line.red("|abc", clash="a")
    assert line.returned == ["a"]
    assert line.running == ["|bc"]


def test_a_conflict_of_an_entry_ahead_does_not_blame_the_last() -> None:
    """`b` conflicts during the trial of `c`; `c` is then tried without `b`."""
    line = Held()
    line.enter("abc")
    line.red("ab|c", clash="b")
    assert line.returned == []
    assert "a|c" in line.running


def test_if_all_are_bad_all_are_returned() -> None:
    line = Held(slots=2)
    line.enter("abcdef")
    while line.running:
        line.red(line.running[0])
    assert (line.moves, sorted(line.returned)) == ([], list("abcdef"))


def test_a_red_path_is_not_tried_again_on_the_same_tip() -> None:
    """After the tip has moved, all are tried again."""
    line = Held(policy=TrainPolicy(hedge_above=0.9))
    line.enter("abc", risk=0.05)
    line.red("a|b")
    assert line.started.count("a|b") == 1
    line.line.move()
    line.settle()
    assert line.moves == []
    assert line.running == ["ab|c", "a|b", "|a"]


def test_a_green_trial_on_an_older_tip_lands_nothing() -> None:
    """Its entry is marked vetted and tried on the new tip."""
    line = Held()
    line.enter("a")
    line.enter("r", risk=0.5)
    assert line.running == ["|a", "|r"]
    line.green("|a")
    line.green("|r")
    assert line.moves == ["a"]
    assert line.line.entries["r"].vetted
    assert line.running == ["|r"], "now on the tip as it is"
    line.green("|r")
    assert line.moves == ["a", "r"]


def test_the_rest_of_a_car_is_tried_without_a_withdrawn_entry() -> None:
    line = Held(slots=1)
    line.enter("ab")
    assert line.running == ["|ab"]
    line.withdraw("a")
    assert line.running == ["|b"]


@pytest.mark.parametrize("change", [{"ready": False}, {"held": True}])
def test_a_held_or_unapproved_entry_leaves_its_car(change: dict[str, bool]) -> None:
    """The others keep the place of the batch, and the entry lands once it may."""
    line = Held(slots=1)
    line.enter("abc")
    line.change("b", **change)
    assert line.cars == ["ac"]
    assert line.running == ["|ac"]
    assert not line.line.entries["a"].single
    line.green("|ac")
    assert line.moves == ["ac"]
    for _ in line.running:
        line.green("|b")
    assert line.moves == ["ac"], "no entry lands without approval"
    line.change("b", ready=True, held=False)
    if line.running:
        line.green("|b")
    assert line.moves == ["ac", "b"]


def test_an_entry_entered_twice_keeps_its_place_and_its_trial() -> None:
    line = Held()
    line.enter("ab")
    line.change("a", risk=0.02)
    assert line.running == ["a|b", "|a"]
    assert line.started == ["|a", "a|b"]


def test_an_entry_is_returned_after_two_timeouts() -> None:
    """After the first timeout the same trial runs again, and no entry is tried without the slow one."""
    line = Held()
    line.enter("ab")
    line.answer("|a", state="timeout")
    assert line.running == ["a|b", "|a"]
    assert line.returned == []
    line.answer("|a", state="timeout")
    assert line.returned == ["a"]
    assert line.running == ["|b"]


def test_a_car_is_split_after_two_timeouts() -> None:
    line = Held(slots=1)
    line.enter("ab")
    line.answer("|ab", state="timeout")
    assert (line.running, line.dissolved) == (["|ab"], [])
    line.answer("|ab", state="timeout")
    assert (line.running, line.dissolved) == (["|a"], ["ab"])


def test_a_hotfix_goes_before_all_that_are_not_green() -> None:
    """A green trial ahead of it is kept."""
    line = Held(policy=TrainPolicy(later_passes=True))
    line.enter("abc")
    line.change("a", held=True)
    line.line.answer(line.trial("|a").id, "green")
    line.enter("h", klass="hotfix")
    assert line.cars == ["a", "h", "b", "c"]
    assert "|h" in line.running
    line.green("|h")
    assert line.moves == ["h"]


def test_the_least_likely_trial_gives_its_slot_to_a_hotfix() -> None:
    line = Held(slots=1)
    line.enter("abc")
    line.enter("h", klass="hotfix")
    assert line.cars == ["h", "abc"]
    assert line.running == ["|h"]
    line.enter("i", klass="hotfix")
    assert line.running == ["|h"], "hotfixes go in the order in which they came"


def test_a_low_entry_is_overtaken_at_most_so_often() -> None:
    line = Held(slots=1, policy=TrainPolicy(most_overtaken=3, most=1))
    line.enter("z", klass="low", plans=False)
    line.enter("a")
    for one in "bcdefgh":
        line.enter(one)
        line.green(line.running[0])
    assert line.moves[:5] == ["a", "b", "c", "z", "d"]


def test_hotfixes_overtake_a_car_at_most_so_often() -> None:
    line = Held(slots=1, policy=TrainPolicy(most_overtaken=2))
    line.enter("a")
    for one in "hijk":
        line.enter(one, klass="hotfix", plans=False)
        line.settle()
    assert line.cars == ["h", "i", "a", "j", "k"]


def test_a_returned_entry_comes_back_to_its_old_place() -> None:
    """It keeps the time of its first acceptance, and shares no batch."""
    line = Held(slots=1)
    line.enter("ab")
    line.red("|ab")
    line.red("|a")
    line.enter("cd", plans=False)
    line.line.enter(TrainEntry(id="a", accepted=0, risk=0.01, single=True))
    line.green("|b")
    assert line.running == ["|a"]


def test_one_submitter_cannot_take_all_slots_from_another() -> None:
    """A submitter alone may take all slots."""
    line = Held(slots=3, policy=TrainPolicy(most_of_one=2, most=1))
    line.enter("abcd", submitter="agent", plans=False)
    line.enter("x", submitter="person")
    assert line.cars == ["a", "b", "x"]
    alone = Held(slots=3, policy=TrainPolicy(most_of_one=2, most=1))
    alone.enter("abcd", submitter="agent")
    assert alone.cars == ["a", "b", "c"]


def test_an_unapproved_entry_is_tried_and_lands_once_approved() -> None:
    """No second trial is needed."""
    line = Held(slots=1)
    line.enter("a", ready=False)
    assert line.running == ["|a"]
    line.green("|a")
    assert (line.moves, line.running) == ([], [])
    line.change("a", ready=True)
    assert (line.moves, line.started) == (["a"], ["|a"])


def test_the_only_slot_goes_to_the_first_entry() -> None:
    """This holds even if the first entry is not approved yet."""
    line = Held(slots=1)
    line.enter("a", ready=False, plans=False)
    line.enter("b")
    assert line.running == ["|a"]
    other = Held(slots=1)
    other.enter("b", plans=False)
    other.enter("a", ready=False)
    assert other.running == ["|b"]


def test_an_entry_red_on_the_tip_is_returned_without_approval() -> None:
    line = Held(slots=2)
    line.enter("a", ready=False)
    line.red("|a")
    assert line.returned == ["a"]


def test_a_risky_entry_is_tried_alone_before_others_build_on_it() -> None:
    """This needs spare slots. With few slots the others are tried on top of it."""
    line = Held(slots=4)
    line.enter("r", risk=0.5, plans=False)
    line.enter("a")
    assert line.running == ["|a", "|r"]
    few = Held(slots=2)
    few.enter("r", risk=0.4, plans=False)
    few.enter("a")
    assert few.running == ["r|a", "|r"]


def test_a_trial_that_assumes_a_red_entry_gives_its_slot_away() -> None:
    """With spare slots it continues."""
    line = Held(slots=2, policy=TrainPolicy(most=1))
    line.enter("abc")
    line.green("|a")
    line.red("|b")
    assert line.cancelled == ["b|c"]
    assert line.running == ["|b", "|c"]
    wide = Held(slots=3)
    wide.enter("abc")
    wide.green("|a")
    wide.red("|b")
    assert wide.cancelled == []
    assert wide.running == ["b|c", "|b", "|c"]


def test_a_very_unlikely_trial_is_cancelled_even_with_idle_slots() -> None:
    """One red of a risky entry makes the trial behind it very unlikely."""
    line = Held()
    line.enter("abc", risk=0.19)
    line.green("|a")
    line.red("|b")
    assert line.cancelled == ["b|c"]
    assert line.running == ["|b", "|c"]


def test_the_same_snapshot_gives_the_same_plan() -> None:
    line = Held(slots=3)
    line.enter("abcdefg", plans=False)
    seen = line.line.snapshot(slots=3, policy=TrainPolicy(), surprise=0.02)
    assert plan(seen) == plan(seen)


def test_without_slots_all_trials_are_cancelled() -> None:
    line = Held(slots=2)
    line.enter("ab")
    line.slots = 0
    assert {type(action) for action in line.plan()} == {Cancel}
    line.settle()
    assert line.running == []


def test_an_answer_about_an_unknown_trial_changes_nothing() -> None:
    line = Held()
    line.enter("a")
    line.line.answer("t99", "red")
    line.line.start(Trial(id="t98", ahead=("z",), car=("a",)))
    line.settle()
    assert line.returned == []


def test_an_entry_waits_for_a_need_named_after_its_trial_began() -> None:
    line = Held()
    line.enter("b")
    line.line.answer(line.trial("|b").id, "green")
    line.line.enter(TrainEntry(id="b", accepted=0, needs=("a",)))
    line.enter("a", ready=False)
    assert line.moves == []
    line.change("a", ready=True)
    line.green("|a")
    line.green(line.running[0])
    assert line.moves == ["a", "b"]


def test_a_held_entry_holds_up_only_those_that_need_it() -> None:
    """Entries that need its dependents wait as well."""
    line = Held()
    line.enter("a")
    line.enter("b", needs="a")
    line.enter("c", needs="b")
    line.change("a", held=True)
    line.enter("d")
    assert "|d" in line.running
    line.green("|d")
    assert line.moves == ["d"]
    assert not [one for one in line.running if one not in ("|a", "a|b", "ab|c")]


def test_an_entry_follows_a_need_that_a_split_has_moved_back() -> None:
    """`b` is in a red batch and moves behind `d`, which needs it. `d` is then put in a batch behind `b`."""
    line = Held(slots=2, policy=TrainPolicy(most=2))
    line.enter("abc", plans=False)
    line.enter("d", needs="b")
    for _ in range(20):
        if not line.running:
            break
        spec = line.running[0]
        line.answer(spec, state="red" if "c" in spec else "green")
    assert sorted("".join(line.moves)) == ["a", "b", "d"]
    assert line.returned == ["c"]


def test_no_slot_is_spent_far_down_a_chain_of_risky_cars() -> None:
    line = Held(slots=3, policy=TrainPolicy(vet_above=1.0, hedge_above=1.0, most=1), surprise=0.0)
    line.enter("abcdefg", risk=0.45)
    line.slots = 12
    line.settle()
    assert line.running == ["abc|d", "ab|c", "a|b", "|a"]


def test_those_behind_are_tried_without_an_entry_after_its_first_red() -> None:
    """The entry's second run continues, and it lands if that is green."""
    line = Held(slots=4)
    line.enter("abc")
    line.doubt("|a")
    assert {"b|c", "|a", "|b"} <= set(line.running)
    line.green("|a")
    assert line.moves == ["a"]
    assert not line.returned


def test_an_entry_is_returned_only_after_its_second_red() -> None:
    """Until then others may land before it."""
    line = Held()
    line.enter("ab")
    line.doubt("|a")
    line.green("|b")
    assert line.moves == ["b"]
    assert not line.returned
    line.red("|a")
    assert line.returned == ["a"]


def lanes(*, slots: int = 8) -> Held:
    """Make a queue in which `a` and `c` share a scope, and `b` shares one with neither."""
    line = Held(slots=slots)
    line.enter("a", scopes="x", plans=False)
    line.enter("b", scopes="y", plans=False)
    line.enter("c", scopes="xz")
    return line


def test_a_car_does_not_wait_for_other_scopes() -> None:
    """Each entry is tried only behind those that share a scope with it."""
    line = lanes()
    assert line.running == ["a|c", "|a", "|b"]
    line.green("|b")
    assert line.moves == ["b"]
    assert line.running == ["a|c", "|a"]
    assert not line.cancelled


def test_a_green_of_an_older_tip_is_tried_again_before_it_lands() -> None:
    """Entries of other scopes have moved the tip."""
    line = lanes()
    line.green("|b")
    line.green("|a")
    assert line.moves == ["b"]
    assert line.started == ["|a", "|b", "a|c", "|a"]
    line.green("|a")
    assert line.moves == ["b", "a"]
    line.green("|c")
    assert line.moves == ["b", "a"], "it began on a tip without 'b'"
    line.green("|c")
    assert line.moves == ["b", "a", "c"]


def test_a_green_behind_a_running_trial_is_not_tried_again_at_once() -> None:
    """Another landing could make it stale again. It waits until those ahead are green, and all land together."""
    line = lanes()
    line.green("|b")
    line.green("a|c")
    assert line.running == ["|a"]
    line.green("|a")
    assert line.running == ["a|c", "|a"]
    line.green("a|c")
    assert line.moves == ["b", "ac"]


def test_an_entry_is_tried_again_after_a_landing_in_its_scopes() -> None:
    """Its earlier trial did not include the landed entry."""
    line = Held(slots=3)
    line.enter("ab", scopes="x", needs="", plans=False)
    line.enter("c", scopes="y")
    line.red("a|b")
    line.doubt("|a")
    line.green("|b")
    assert line.moves == ["b"]
    line.green("|a")
    assert line.moves == ["b"]
    line.green("|a")
    assert line.moves == ["b", "a"]


def test_a_second_red_counts_though_other_scopes_have_landed() -> None:
    """Nothing that its checks look at has changed."""
    line = lanes()
    line.green("|b")
    line.red("|a")
    assert line.returned == ["a"]
    assert line.running == ["|c"]


def test_a_red_does_not_affect_other_scopes() -> None:
    line = lanes()
    line.red("a|c")
    line.doubt("|a")
    assert "|b" in line.running
    assert not any(spec.startswith("b|") or "b|" in spec for spec in line.started)


def test_an_entry_that_turns_red_on_the_new_tip_is_returned() -> None:
    """Its declared scopes were too narrow."""
    line = lanes()
    line.green("|b")
    line.green("|a")
    line.red("|a")
    assert line.returned == ["a"]
    assert line.moves == ["b"]


def test_a_need_goes_ahead_whatever_its_scopes() -> None:
    """The needs of the need go ahead, too."""
    line = Held()
    line.enter("a", scopes="x", plans=False)
    line.enter("b", scopes="y", needs="a", plans=False)
    line.enter("c", scopes="z", needs="b", plans=False)
    line.enter("d", scopes="z")
    assert line.running == ["abc|d", "ab|c", "a|b", "|a"]


def test_an_entry_without_scopes_overlaps_with_all() -> None:
    line = Held()
    line.enter("a", scopes="x", plans=False)
    line.enter("b", plans=False)
    line.enter("c", scopes="y", plans=False)
    line.enter("d", scopes="x")
    assert line.running == ["ab|d", "a|b", "b|c", "|a"]


def test_a_car_takes_entries_of_the_same_scope_first() -> None:
    """This matters when more entries wait than there are slots."""
    line = Held(slots=1)
    for one, scope in zip("abcd", "xyxy", strict=True):
        line.enter(one, scopes=scope, plans=False)
    line.policy = TrainPolicy(most=2)
    line.settle()
    assert line.cars == ["ac"]


def test_a_long_queue_of_one_scope_does_not_hold_up_another() -> None:
    """`y` is too unlikely to be tried, and `z` of another scope is tried at once."""
    line = Held(slots=30)
    line.enter("abcdefghijklmnopq", scopes="x", risk=0.45, plans=False)
    for one in line.line.entries:
        line.line.couple((one,), len(line.line.cars))
    line.enter("y", scopes="x")
    line.enter("z", scopes="z")
    assert "|z" in line.running
    assert line.cars[-1] == "z", "behind 'q' nothing is likely: 'y' waits"


def test_an_entry_ahead_of_a_green_one_still_waits_for_its_own_scopes() -> None:
    line = Held()
    line.enter("b", scopes="y", plans=False)
    line.enter("a", scopes="xy", plans=False)
    line.enter("c", scopes="x")
    assert line.running == ["a|c", "b|a", "|b"]
    line.green("a|c")
    assert line.moves == []
    line.green("|b")
    line.green("|a")
    line.green("|c")
    assert line.moves == ["b", "a", "c"]


def test_a_risky_entry_takes_its_place_at_once_where_few_share_its_scopes() -> None:
    line = Held()
    line.enter("a", scopes="x", risk=0.4, plans=False)
    line.enter("b", scopes="x")
    assert line.cars == ["a", "b"]


@pytest.mark.parametrize("slots", [1, 2, 8])
def test_those_whose_own_tests_fail_are_taken_out_and_the_rest_lands_in_one_run(slots: int) -> None:
    """The rest keeps its place. The suspect is returned only when it fails alone."""
    line = Held(slots=slots, policy=TrainPolicy(most=4))
    line.enter("abcd", plans=False)
    line.line.couple(("a", "b", "c", "d"), 0)
    line.settle()
    line.red("|abcd", suspects="c")
    assert (line.cars, line.returned) == (["abd"], [])
    assert "|c" in line.running or slots == 1
    line.green("|abd")
    line.red("|c")
    assert (line.moves, line.returned, len(line.started)) == (["abd"], ["c"], 3)


def test_two_suspects_are_taken_out_at_once_and_a_good_one_lands() -> None:
    """A flaky test of its own costs an entry only its batch."""
    line = Held(slots=1, policy=TrainPolicy(most=4))
    line.enter("abcd", plans=False)
    line.line.couple(("a", "b", "c", "d"), 0)
    line.settle()
    line.red("|abcd", suspects="bd")
    line.green("|ac")
    line.green("|b")
    line.red("|d")
    assert (line.moves, line.returned) == (["ac", "b"], ["d"])


def test_a_car_of_suspects_alone_is_tried_one_by_one() -> None:
    """The older is tried first."""
    line = Held(slots=1)
    line.enter("ab")
    line.red("|ab", suspects="ab")
    assert line.cars == [] and line.running == ["|a"]
    line.green("|a")
    line.green("|b")
    assert (line.moves, line.returned) == (["a", "b"], [])


def test_a_rest_that_is_red_without_its_suspects_is_taken_apart_and_costs_a_good_one_nothing() -> None:
    """A test of the target also failed, and only halving shows which entry broke it."""
    line = Held(slots=1, policy=TrainPolicy(most=4))
    line.enter("abcd", plans=False)
    line.line.couple(("a", "b", "c", "d"), 0)
    line.settle()
    line.red("|abcd", suspects="c")
    assert line.running == ["|abd"]
    line.red("|abd")
    assert line.cars == ["ab", "d"]
    line.green("|ab")
    line.green("|c")
    line.red("|d")
    assert (line.moves, line.returned) == (["ab", "c"], ["d"])


def test_a_suspect_for_the_second_time_goes_alone_for_good() -> None:
    """After the first time it may share a batch again."""
    line = Held(slots=1)
    line.enter("ab", plans=False)
    for _ in range(2):
        line.line.couple(("a", "b"), 0)
        line.line.dissolve(("a", "b"), (("b",),), ("a",))
        line.line.leave("b")
        line.enter("b", plans=False)
    assert line.line.entries["a"].single and not line.line.entries["b"].single


def test_a_red_behind_others_makes_the_owner_of_the_failed_test_suspect() -> None:
    """The entry behind is then tried without the suspect."""
    line = Held(slots=2)
    line.enter("ab")
    line.red("a|b", suspects="a")
    assert line.running == ["|a", "|b"]


@pytest.mark.parametrize(("named", "size"), [(0.0, 3), (0.5, 6), (0.8, 8)])
def test_cars_are_longer_where_reds_tell_whose_they_are(named: float, size: int) -> None:
    """Halving a long batch costs several runs; taking out a named suspect costs one."""
    line = Held(slots=1, named=named)
    line.enter("abcdefghij", risk=0.1, plans=False)
    line.settle()
    assert len(line.cars[0]) == size


@pytest.mark.parametrize(("named", "cars"), [(0.0, ["a"]), (0.8, ["abc"])])
def test_one_green_alone_shares_a_car_with_risky_ones_where_reds_name_their_suspects(
    named: float, cars: list[str]
) -> None:
    """Named suspects leave the batch, so sharing costs it at most one run."""
    line = Held(slots=1, named=named)
    line.enter("abc", risk=0.25, plans=False)
    line.line.vet("a")
    line.settle()
    assert line.cars == cars


def test_a_vetted_one_comes_through_a_red_car_of_risky_ones_unharmed() -> None:
    """The red suspects leave the batch, and the vetted entry lands with the next run."""
    line = Held(slots=1, named=0.8)
    line.enter("abc", risk=0.25, plans=False)
    line.line.vet("a")
    line.settle()
    line.red("|abc", suspects="bc")
    line.green("|a")
    assert (line.moves, line.returned) == (["a"], [])
    line.red("|b")
    line.red("|c")
    assert (line.moves, line.returned) == (["a"], ["b", "c"])
