"""The merge train's scenarios that are the plan's alone: checks are held, and let go one by one."""

import pytest
from holding import Held

from forgepool.supervisor.train.model import Cancel, Couple, Land, StartTrial, TrainEntry, TrainPolicy, Trial
from forgepool.supervisor.train.plan import plan


def test_one_alone_is_coupled_tried_and_landed() -> None:
    """The serial queue is the train with one slot: coupled, tried on the tip alone and decisively, landed."""
    line, said = Held(slots=1), []
    line.enter("a", plans=False)
    while actions := line.plan():
        said += actions
        for action in actions:
            line.do(action)
            if isinstance(action, StartTrial):
                line.line.answer("t1", "green")
    assert said == [Couple(entries=("a",), at=0), StartTrial(ahead=(), car=("a",), decisive=True), Land(trial="t1")]


def test_three_are_not_tried_at_once() -> None:
    """1: three entries are on trial at once, each on those before it, and land in order."""
    line = Held()
    line.enter("abc")
    assert line.running == ["ab|c", "a|b", "|a"]
    line.green("|a")
    line.green("|b")
    line.green("|c")
    assert line.moves == ["a", "b", "c"]


def test_those_behind_a_red_head_wait_for_its_return() -> None:
    """2: behind a red head all start again without it, at once; its return comes once."""
    line = Held()
    line.enter("abc")
    line.red("|a")
    assert line.returned == ["a"]
    assert line.running == ["b|c", "|b"]


def test_a_red_in_the_middle_disturbs_those_ahead() -> None:
    """3: only those behind a red start again without it; who is ahead goes on."""
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


def test_a_red_behind_a_bad_head_is_blamed() -> None:
    """4: one that was red behind a head that turns out red comes back into the chain, with a fresh trial."""
    line = Held()
    line.enter("abc")
    line.red("a|b")
    assert line.returned == []
    assert "a|c" in line.running, "who is behind the doubted one goes around it at once"
    line.red("|a")
    assert line.returned == ["a"]
    assert line.running == ["b|c", "|b"]
    line.green("|b")
    line.green("|c")
    assert line.moves == ["b", "c"]


def test_a_second_word_on_a_returned_entry_counts() -> None:
    """5: an entry is returned once, whatever is still heard of its trials."""
    line = Held()
    line.enter("ab")
    first = line.trial("|a").id
    line.red("|a")
    line.line.answer(first, "red")
    line.settle()
    assert line.returned == ["a"]
    assert line.started.count("|b") == 1


def test_a_red_last_touches_somebody_else() -> None:
    """6: the last of the chain is red: nobody else is touched."""
    line = Held(policy=TrainPolicy(hedge_above=0.9))
    line.enter("abc")
    before = [line.trial("|a"), line.trial("a|b")]
    line.red("ab|c")
    assert [line.trial("|a"), line.trial("a|b")] == before
    assert line.cancelled == []


@pytest.mark.parametrize(("later_passes", "moves"), [(True, ["abc"]), (False, [])])
def test_a_green_prefix_does_as_the_policy_forbids(later_passes: bool, moves: list[str]) -> None:
    """7: a green later prefix lands those ahead that are still on trial, where the policy has it so."""
    line = Held(policy=TrainPolicy(later_passes=later_passes))
    line.enter("abc")
    line.green("ab|c")
    assert line.moves == moves


def test_green_followers_of_a_slow_head_land_one_by_one() -> None:
    """8: followers that are green before a slow head wait for it, and land with it in one move."""
    line = Held(policy=TrainPolicy(later_passes=False))
    line.enter("abc")
    line.green("a|b", "ab|c")
    assert line.moves == []
    line.green("|a")
    assert line.moves == ["abc"]


def test_fewer_slots_leave_all_running() -> None:
    """9: with fewer slots than trials the least likely are cancelled, and the order stays."""
    line = Held(slots=4)
    line.enter("abcd")
    line.slots = 2
    line.settle()
    assert line.cancelled == ["abc|d", "ab|c"]
    assert line.running == ["a|b", "|a"]
    assert line.cars == ["a", "b", "c", "d"]


def test_an_arrival_cancels_what_runs() -> None:
    """10: a new arrival never cancels running work, even where all slots are taken."""
    line = Held(slots=2)
    line.enter("ab")
    line.enter("cdef", risk=0.001)
    line.enter("g", klass="low")
    assert line.cancelled == []
    assert line.running == ["a|b", "|a"]


def test_a_hedge_that_came_true_is_tried_again() -> None:
    """11: the trial without the red head was green before the head's answer: it lands with no new run."""
    line = Held(policy=TrainPolicy(hedge_above=0.1), surprise=0.0)
    line.enter("ab", risk=0.19)
    assert "|b" in line.running, "slots are idle, and the head may well be red"
    line.green("|b")
    assert line.moves == []
    started = list(line.started)
    line.red("|a")
    assert line.moves == ["b"]
    assert line.started == started


def test_a_hedge_is_let_go_before_it_is_likely() -> None:
    """11, the other way: where the head is most likely good, no slot is spent on its being red."""
    line = Held(policy=TrainPolicy(hedge_above=0.35))
    line.enter("ab")
    assert line.running == ["a|b", "|a"]


def test_a_slot_is_given_away_before_its_trial_has_stopped() -> None:
    """12: a cancelled trial holds its slot until the stop is seen; nothing more is cancelled for its sake."""
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


def test_a_dependent_stays_without_what_it_needs() -> None:
    """14: B needs A, and is on trial only behind it; A is red: the line names B as one that cannot land."""
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


def test_a_dependent_is_tried_around_a_doubted_need() -> None:
    """14: while A is doubted, those behind go around A and B both, and B waits."""
    line = Held(policy=TrainPolicy(hedge_above=0.9))
    line.enter("x")
    line.enter("a", risk=0.15)
    line.enter("b", needs="a")
    line.enter("c")
    line.red("x|a")
    assert "x|c" in line.running
    assert not [spec for spec in line.started if "b" in spec and "a" not in spec]


def test_an_entry_goes_before_what_it_needs() -> None:
    """15: what an entry needs goes before it, whatever came first; together they may share a car."""
    line = Held(slots=1)
    line.enter("c", needs="b", plans=False)
    line.enter("b", needs="a", plans=False)
    line.enter("a")
    assert line.running == ["|abc"]


def test_a_cycle_hangs_the_others() -> None:
    """16: entries that need one another are never coupled, and nobody else waits for them."""
    line = Held()
    line.enter("a", needs="b", plans=False)
    line.enter("b", needs="a", plans=False)
    line.enter("c", plans=False)
    line.enter("d", needs="d")
    line.green("|c")
    assert line.moves == ["c"]
    assert line.running == []


def test_a_landed_need_is_waited_for() -> None:
    """17: what is not in line any more is not waited for."""
    line = Held()
    line.enter("b", needs="a")
    assert line.running == ["|b"]


def test_a_bad_one_takes_its_car_along() -> None:
    """20: the one bad entry of a car is returned, and the others land; the first of halves goes first."""
    line = Held(slots=1)
    line.enter("abcd")
    line.red("|abcd")
    assert line.cars == ["ab", "cd"]
    line.green("|ab")
    line.red("|cd")
    line.red("|c")
    line.green("|d")
    assert (line.moves, line.returned) == (["ab", "d"], ["c"])


def test_two_bad_ones_hide_each_other() -> None:
    """21: two bad ones in different halves are both returned, and nobody else."""
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


def test_both_of_a_pair_are_returned() -> None:
    """22: a pair that is red together in one car: the older lands, the younger is returned on top of it."""
    line = Held(slots=1)
    line.enter("ab")
    line.red("|ab")
    line.green("|a")
    line.red("|b")
    assert (line.moves, line.returned) == (["a"], ["b"])


def test_a_pair_in_two_cars_blames_the_older() -> None:
    """22: in different cars: the younger is red behind the older, and returned once the older has landed."""
    line = Held()
    line.enter("ab")
    line.red("a|b")
    assert line.returned == []
    line.green("|a")
    assert line.returned == [], "what was red behind somebody is tried alone before it is blamed"
    line.red("|b")
    assert (line.moves, line.returned) == (["a"], ["b"])


def test_three_that_fail_together_all_go() -> None:
    """23: of three that fail only together the last is returned; the two others land."""
    line = Held(slots=1)
    line.enter("abc")
    line.red("|abc")
    line.green("|ab")
    line.red("|c")
    assert (line.moves, line.returned) == (["ab"], ["c"])


def test_a_flake_is_blamed() -> None:
    """24: red behind somebody, then green on the very same: it lands, and nobody is returned."""
    line = Held()
    line.enter("ab")
    line.red("a|b")
    line.green("|a")
    line.green("|b")
    assert (line.moves, line.returned) == (["a", "b"], [])


def test_a_failure_that_does_not_come_again_costs_a_return() -> None:
    """25: a red car whose parts are all green is nobody's fault; each of them lands, and shares no car again."""
    line = Held(slots=1)
    line.enter("ab")
    line.red("|ab")
    line.enter("c")
    line.green("|a")
    line.green("|b")
    line.green("|c")
    assert (line.moves, line.returned) == (["a", "b", "c"], [])


def test_a_single_entry_shares_a_car() -> None:
    """26: an entry marked single is never coupled with another; those of a red car are."""
    line = Held(slots=1)
    line.line.enter(TrainEntry(id="a", accepted=0, risk=0.01, single=True))
    line.enter("bc")
    assert line.running == ["|a"]
    line.green("|a")
    assert line.running == ["|bc"]
    line.red("|bc")
    assert all(one.single for one in line.line.entries.values())


def test_a_car_is_longer_than_it_may_be() -> None:
    """27: a car is never longer than the policy says, nor than pays at its risk."""
    line = Held(slots=1, policy=TrainPolicy(most=3))
    line.enter("abcdefgh")
    assert line.running == ["|abc"]
    risky = Held(slots=1)
    risky.enter("abcdefgh", risk=0.25)
    assert risky.running == ["|ab"]


def test_a_clash_in_a_car_isolates_all() -> None:
    """28: one that does not go together with those before it leaves their car; the others stay together."""
    line = Held(slots=1)
    line.enter("abcd")
    line.red("|abcd", clash="c")
    assert line.cars == ["abd", "c"]
    assert line.returned == []
    line.green("|abd")
    line.red("|c", clash="c")
    assert (line.moves, line.returned) == (["abd"], ["c"])


def test_a_clash_with_the_tip_waits() -> None:
    """29: what does not go on the tip is returned at once, alone, and its car goes on without it."""
    line = Held(slots=1)
    line.enter("abc")
    line.red("|abc", clash="a")
    assert line.returned == ["a"]
    assert line.running == ["|bc"]


def test_a_clash_deeper_inside_blames_the_last() -> None:
    """29: a clash of one ahead tells of that one, and those behind go around it; nobody is blamed for it."""
    line = Held()
    line.enter("abc")
    line.red("ab|c", clash="b")
    assert line.returned == []
    assert "a|c" in line.running


def test_all_red_leaves_somebody() -> None:
    """30: all are bad: all are returned, and nothing lands."""
    line = Held(slots=2)
    line.enter("abcdef")
    while line.running:
        line.red(line.running[0])
    assert (line.moves, sorted(line.returned)) == ([], list("abcdef"))


def test_a_red_is_asked_again_and_a_green_of_another_tip_lands() -> None:
    """33, in part: what is red on one path is not tried on it again; what was green on another tip does not land."""
    line = Held(policy=TrainPolicy(hedge_above=0.9))
    line.enter("abc", risk=0.05)
    line.red("a|b")
    assert line.started.count("a|b") == 1
    line.line.move()
    line.settle()
    assert line.moves == []
    assert line.running == ["ab|c", "a|b", "|a"]


def test_a_stale_green_lands() -> None:
    """33, in part: a trial alone that ends on a tip that has moved vets its entry, and lands nothing."""
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


def test_the_other_of_a_car_is_lost_with_a_withdrawn_one() -> None:
    """37: of a car of two one is withdrawn: the other is tried without it."""
    line = Held(slots=1)
    line.enter("ab")
    assert line.running == ["|ab"]
    line.withdraw("a")
    assert line.running == ["|b"]


@pytest.mark.parametrize("change", [{"ready": False}, {"held": True}])
def test_one_without_a_word_keeps_its_car(change: dict[str, bool]) -> None:
    """38: the word for one of a car is taken back, or it is held: the others go on in its place, and it waits."""
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
    assert line.moves == ["ac"], "nobody lands without the word"
    line.change("b", ready=True, held=False)
    if line.running:
        line.green("|b")
    assert line.moves == ["ac", "b"]


def test_one_entered_twice_stands_twice() -> None:
    """39: an entry that is in line already keeps its place, and its trial."""
    line = Held()
    line.enter("ab")
    line.change("a", risk=0.02)
    assert line.running == ["a|b", "|a"]
    assert line.started == ["|a", "a|b"]


def test_a_timeout_is_a_red() -> None:
    """57: a timeout is tried once more on the same spec, then told of one entry; nobody behind goes around it."""
    line = Held()
    line.enter("ab")
    line.answer("|a", state="timeout")
    assert line.running == ["a|b", "|a"]
    assert line.returned == []
    line.answer("|a", state="timeout")
    assert line.returned == ["a"]
    assert line.running == ["|b"]


def test_a_car_that_timed_out_is_halved_at_once() -> None:
    """57: a car is tried once more too, and is then taken apart."""
    line = Held(slots=1)
    line.enter("ab")
    line.answer("|ab", state="timeout")
    assert (line.running, line.dissolved) == (["|ab"], [])
    line.answer("|ab", state="timeout")
    assert (line.running, line.dissolved) == (["|a"], ["ab"])


def test_a_hotfix_waits_behind_the_others() -> None:
    """71: a hotfix goes in front of all, and costs what is green before it nothing."""
    line = Held(policy=TrainPolicy(later_passes=True))
    line.enter("abc")
    line.change("a", held=True)
    line.line.answer(line.trial("|a").id, "green")
    line.enter("h", klass="hotfix")
    assert line.cars == ["a", "h", "b", "c"]
    assert "|h" in line.running
    line.green("|h")
    assert line.moves == ["h"]


def test_a_hotfix_waits_for_a_slot() -> None:
    """71: where all slots are taken, the least likely trial makes room for a hotfix."""
    line = Held(slots=1)
    line.enter("abc")
    line.enter("h", klass="hotfix")
    assert line.cars == ["h", "abc"]
    assert line.running == ["|h"]
    line.enter("i", klass="hotfix")
    assert line.running == ["|h"], "hotfixes go in the order in which they came"


def test_a_low_one_starves() -> None:
    """72: under a stream of others that are accepted later a low entry lands within its bound."""
    line = Held(slots=1, policy=TrainPolicy(most_overtaken=3, most=1))
    line.enter("z", klass="low", plans=False)
    line.enter("a")
    for one in "bcdefgh":
        line.enter(one)
        line.green(line.running[0])
    assert line.moves[:5] == ["a", "b", "c", "z", "d"]


def test_hotfixes_overtake_a_car_for_ever() -> None:
    """72: a car may be overtaken by so many hotfixes, and no more."""
    line = Held(slots=1, policy=TrainPolicy(most_overtaken=2))
    line.enter("a")
    for one in "hijk":
        line.enter(one, klass="hotfix", plans=False)
        line.settle()
    assert line.cars == ["h", "i", "a", "j", "k"]


def test_a_repeated_failer_loses_its_place_for_ever() -> None:
    """73: one that comes back keeps its first acceptance, shares no car, and is next of its class."""
    line = Held(slots=1)
    line.enter("ab")
    line.red("|ab")
    line.red("|a")
    line.enter("cd", plans=False)
    line.line.enter(TrainEntry(id="a", accepted=0, risk=0.01, single=True))
    line.green("|b")
    assert line.running == ["|a"]


def test_one_submitter_takes_all_slots() -> None:
    """74: one submitter has at most so many in cars while another waits; alone, as many as there are slots."""
    line = Held(slots=3, policy=TrainPolicy(most_of_one=2, most=1))
    line.enter("abcd", submitter="agent", plans=False)
    line.enter("x", submitter="person")
    assert line.cars == ["a", "b", "x"]
    alone = Held(slots=3, policy=TrainPolicy(most_of_one=2, most=1))
    alone.enter("abcd", submitter="agent")
    assert alone.cars == ["a", "b", "c"]


def test_one_nobody_has_approved_lands() -> None:
    """An entry that waits for a word is tried alone meanwhile, and lands on the word with no new trial."""
    line = Held(slots=1)
    line.enter("a", ready=False)
    assert line.running == ["|a"]
    line.green("|a")
    assert (line.moves, line.running) == ([], [])
    line.change("a", ready=True)
    assert (line.moves, line.started) == (["a"], ["|a"])


def test_one_slot_is_kept_from_the_first_in_line() -> None:
    """With one slot, whoever is first in line is tried: one that waits for a word too."""
    line = Held(slots=1)
    line.enter("a", ready=False, plans=False)
    line.enter("b")
    assert line.running == ["|a"]
    other = Held(slots=1)
    other.enter("b", plans=False)
    other.enter("a", ready=False)
    assert other.running == ["|b"]


def test_a_red_alone_waits_for_the_word() -> None:
    """What is red alone on the tip is returned, whether anybody has approved it or not."""
    line = Held(slots=2)
    line.enter("a", ready=False)
    line.red("|a")
    assert line.returned == ["a"]


def test_a_risky_one_is_put_in_the_chain_untried() -> None:
    """With slots to spare, a risky entry is tried alone before others are tried on top of it; its twin is not risky."""
    line = Held(slots=4)
    line.enter("r", risk=0.5, plans=False)
    line.enter("a")
    assert line.running == ["|a", "|r"]
    few = Held(slots=2)
    few.enter("r", risk=0.4, plans=False)
    few.enter("a")
    assert few.running == ["r|a", "|r"]


def test_a_likelier_path_waits_for_a_useless_one() -> None:
    """A trial that assumes what has been red gives its slot to one that does not; with slots to spare it goes on."""
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


def test_a_refuted_path_goes_on() -> None:
    """What will hardly come true is cancelled though slots be idle: of a risky one even one red says enough."""
    line = Held()
    line.enter("abc", risk=0.19)
    line.green("|a")
    line.red("|b")
    assert line.cancelled == ["b|c"]
    assert line.running == ["|b", "|c"]


def test_the_plan_depends_on_chance() -> None:
    """The same snapshot gives the same plan, and a plan changes no snapshot."""
    line = Held(slots=3)
    line.enter("abcdefg", plans=False)
    seen = line.line.snapshot(slots=3, policy=TrainPolicy(), surprise=0.02)
    assert plan(seen) == plan(seen)


def test_no_slots_keep_trials() -> None:
    """Without slots all trials are cancelled, and nothing is started."""
    line = Held(slots=2)
    line.enter("ab")
    line.slots = 0
    assert {type(action) for action in line.plan()} == {Cancel}
    line.settle()
    assert line.running == []


def test_an_answer_to_nobody_counts() -> None:
    """A word on a trial that is of no use any more changes nothing."""
    line = Held()
    line.enter("a")
    line.line.answer("t99", "red")
    line.line.start(Trial(id="t98", ahead=("z",), car=("a",)))
    line.settle()
    assert line.returned == []


def test_a_green_without_what_it_needs_lands() -> None:
    """A need that was named only after the trial had begun is still waited for."""
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


def test_a_dependent_of_a_held_one_hides_those_behind() -> None:
    """One held bars those that need it, and those that need these; all others pass them by, and land."""
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


def test_a_car_whose_need_is_put_behind_it_waits_for_ever() -> None:
    """What an entry needs is in a red car, and goes behind all: the entry is coupled again, behind it."""
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


def test_a_hopeless_path_is_funded() -> None:
    """Far down a chain of doubtful cars no slot is spent: what such a trial assumes will hardly come true."""
    line = Held(slots=3, policy=TrainPolicy(vet_above=1.0, hedge_above=1.0, most=1), surprise=0.0)
    line.enter("abcdefg", risk=0.45)
    line.slots = 12
    line.settle()
    assert line.running == ["abc|d", "ab|c", "a|b", "|a"]


def test_those_behind_wait_for_the_second_red() -> None:
    """One whose first run was red is gone around at once; it goes on, and lands if it is good after all."""
    line = Held(slots=4)
    line.enter("abc")
    line.doubt("|a")
    assert {"b|c", "|a", "|b"} <= set(line.running)
    line.green("|a")
    assert line.moves == ["a"]
    assert not line.returned


def test_a_doubted_one_is_blamed_before_its_last_word() -> None:
    """Who is red so far is passed by, not returned; the second red is what it is returned for."""
    line = Held()
    line.enter("ab")
    line.doubt("|a")
    line.green("|b")
    assert line.moves == ["b"]
    assert not line.returned
    line.red("|a")
    assert line.returned == ["a"]


def lanes(*, slots: int = 8) -> Held:
    """`a` and `c` have to do with each other, `b` with neither."""
    line = Held(slots=slots)
    line.enter("a", scopes="x", plans=False)
    line.enter("b", scopes="y", plans=False)
    line.enter("c", scopes="xz")
    return line


def test_a_car_waits_for_those_of_other_scopes() -> None:
    """Each is tried behind those of its scopes alone, and lands before others."""
    line = lanes()
    assert line.running == ["a|c", "|a", "|b"]
    line.green("|b")
    assert line.moves == ["b"]
    assert line.running == ["a|c", "|a"]
    assert not line.cancelled


def test_a_green_of_an_older_tip_lands_as_if_it_were_of_this_one() -> None:
    """What was green before others landed elsewhere is tried anew on the tip, and lands as it is then."""
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


def test_a_green_behind_one_that_is_open_is_tried_anew_for_nothing() -> None:
    """The next landing elsewhere would undo it again: it waits until those ahead are green, and all land at once."""
    line = lanes()
    line.green("|b")
    line.green("a|c")
    assert line.running == ["|a"]
    line.green("|a")
    assert line.running == ["a|c", "|a"]
    line.green("a|c")
    assert line.moves == ["b", "ac"]


def test_a_landing_of_its_own_scopes_leaves_a_trial_as_it_was() -> None:
    """Who was not tried behind what has landed in its scopes is tried behind it."""
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


def test_a_red_before_others_landed_elsewhere_blames_nobody() -> None:
    """Of what it was red with nothing has changed: the second red of one alone is its own, on whatever tip it began."""
    line = lanes()
    line.green("|b")
    line.red("|a")
    assert line.returned == ["a"]
    assert line.running == ["|c"]


def test_a_red_elsewhere_is_gone_around() -> None:
    """What is red in one scope disturbs nobody in another."""
    line = lanes()
    line.red("a|c")
    line.doubt("|a")
    assert "|b" in line.running
    assert not any(spec.startswith("b|") or "b|" in spec for spec in line.started)


def test_a_green_that_is_red_on_the_tip_goes_round_for_ever() -> None:
    """Where scopes have promised too much, the tip has the last word."""
    line = lanes()
    line.green("|b")
    line.green("|a")
    line.red("|a")
    assert line.returned == ["a"]
    assert line.moves == ["b"]


def test_a_needed_one_of_other_scopes_is_left_out() -> None:
    """Whom one needs goes before it, whatever the scopes; and with it those that it needs."""
    line = Held()
    line.enter("a", scopes="x", plans=False)
    line.enter("b", scopes="y", needs="a", plans=False)
    line.enter("c", scopes="z", needs="b", plans=False)
    line.enter("d", scopes="z")
    assert line.running == ["abc|d", "ab|c", "a|b", "|a"]


def test_one_without_scopes_goes_by_nobody() -> None:
    """Of whose scopes nothing is known, has to do with all."""
    line = Held()
    line.enter("a", scopes="x", plans=False)
    line.enter("b", plans=False)
    line.enter("c", scopes="y", plans=False)
    line.enter("d", scopes="x")
    assert line.running == ["ab|d", "a|b", "b|c", "|a"]


def test_a_car_is_mixed_while_its_own_wait() -> None:
    """Of a backlog that is longer than the slots, those go together first that have to do with each other."""
    line = Held(slots=1)
    for one, scope in zip("abcd", "xyxy", strict=True):
        line.enter(one, scopes=scope, plans=False)
    line.policy = TrainPolicy(most=2)
    line.settle()
    assert line.cars == ["ac"]


def test_a_lane_that_waits_keeps_others_from_going() -> None:
    """Where what comes next in some scopes is too unlikely to be tried, entries of others are coupled all the same."""
    line = Held(slots=30)
    line.enter("abcdefghijklmnopq", scopes="x", risk=0.45, plans=False)
    for one in line.line.entries:
        line.line.couple((one,), len(line.line.cars))
    line.enter("y", scopes="x")
    line.enter("z", scopes="z")
    assert "|z" in line.running
    assert line.cars[-1] == "z", "behind 'q' nothing is likely: 'y' waits"


def test_one_ahead_lands_past_those_it_was_to_come_behind() -> None:
    """Who comes along ahead of a green one may itself have others of its scopes to wait for."""
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


def test_a_short_line_tries_the_risky_apart() -> None:
    """Where few share its scopes a risky one goes into its place at once; those behind go around it, or behind it."""
    line = Held()
    line.enter("a", scopes="x", risk=0.4, plans=False)
    line.enter("b", scopes="x")
    assert line.cars == ["a", "b"]


@pytest.mark.parametrize("slots", [1, 2, 8])
def test_those_whose_own_tests_fail_are_taken_out_and_the_rest_lands_in_one_run(slots: int) -> None:
    """51: the rest stays a car in its place; only red alone returns the suspect."""
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
    """52: a flaky test of its own costs an entry its car, and nothing else."""
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
    """53: nobody is left for a car; the older is tried first."""
    line = Held(slots=1)
    line.enter("ab")
    line.red("|ab", suspects="ab")
    assert line.cars == [] and line.running == ["|a"]
    line.green("|a")
    line.green("|b")
    assert (line.moves, line.returned) == (["a", "b"], [])


def test_a_rest_that_is_red_without_its_suspects_is_taken_apart_and_costs_a_good_one_nothing() -> None:
    """59: beside the suspect's own test one of the target's failed; whose that is shows only by halving."""
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
    """54: green alone, it may share a car again; where that is red as well, it shares none any more."""
    line = Held(slots=1)
    line.enter("ab", plans=False)
    for _ in range(2):
        line.line.couple(("a", "b"), 0)
        line.line.dissolve(("a", "b"), (("b",),), ("a",))
        line.line.leave("b")
        line.enter("b", plans=False)
    assert line.line.entries["a"].single and not line.line.entries["b"].single


def test_a_red_behind_others_doubts_whose_tests_failed() -> None:
    """55: of a car behind another, a test of the first one's fails: the car behind goes around it."""
    line = Held(slots=2)
    line.enter("ab")
    line.red("a|b", suspects="a")
    assert line.running == ["|a", "|b"]


@pytest.mark.parametrize(("named", "size"), [(0.0, 3), (0.5, 6), (0.8, 8)])
def test_cars_are_longer_where_reds_tell_whose_they_are(named: float, size: int) -> None:
    """56: halving costs a long car several runs, and taking one out costs it one."""
    line = Held(slots=1, named=named)
    line.enter("abcdefghij", risk=0.1, plans=False)
    line.settle()
    assert len(line.cars[0]) == size


@pytest.mark.parametrize(("named", "cars"), [(0.0, ["a"]), (0.8, ["abc"])])
def test_one_green_alone_shares_a_car_with_risky_ones_where_reds_name_their_suspects(
    named: float, cars: list[str]
) -> None:
    """57: it needs no run of its own then; a red that names nobody would cost it one, and halving more."""
    line = Held(slots=1, named=named)
    line.enter("abc", risk=0.25, plans=False)
    line.line.vet("a")
    line.settle()
    assert line.cars == cars


def test_a_vetted_one_comes_through_a_red_car_of_risky_ones_unharmed() -> None:
    """58: the others' red takes them out, and neither delays its landing by more than a run nor returns it."""
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
