"""An order goes to a host that can do it; a host that fails again and again gets none for a while."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from plans import RUN, begun, course, follow, result, sent, task

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.orders.start_orders import places_of
from forgepool.orchestrator.decisions.plan_index import GateCourse, PlanIndex
from forgepool.orchestrator.journal.events import (
    Event,
    GateHalted,
    HostReadmitted,
    HostsLacking,
    HostSuspended,
    MessageTaken,
    OrderAnswered,
    OrderSent,
    RunResumed,
    TaskParked,
    TaskPassedOn,
)
from forgepool.orchestrator.reports.event_text import sentence
from forgepool.orchestrator.state.hosts import Host, HostHealth
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.schema.orders import AcpAgent, BuiltinAgent, CliAgent, Outcome

PLAIN = course(*(task(f"t{at}", files=(f"f{at}",)) for at in range(40)))
KEYLESS = Host(name="keyless", slots=4, can=frozenset(["sandbox bubblewrap"]))
KEYED = Host(name="keyed", slots=2, can=frozenset(["sandbox bubblewrap", "type code", "model m"]))
ONE, OTHER = Host(name="one", slots=3), Host(name="other", slots=3)


def ask(
    of: PlanIndex, state: RunState, *hosts: Host, now: float = 100.0, gate_hosts: Sequence[frozenset[str]] = ()
) -> list[Event]:
    slots = sum(host.slots for host in hosts)
    return decide(
        of, state, now=now, order_slots=slots, hosts=hosts, gate_hosts=gate_hosts, check_slots=0, draining=False
    )


def orders(events: list[Event]) -> dict[str, str]:
    return {one.task: one.host for one in events if isinstance(one, OrderSent)}


def answer(
    state: RunState, name: str, host: str, outcome: Outcome = "infrastructure", *, lacks: str = ""
) -> OrderAnswered:
    asked = state.tasks[name]
    assert asked.message is not None and asked.sent_to in (host, "")
    given = result(name, asked.attempt, outcome, token=asked.message.token, detail=lacks or "the disk is full")
    return OrderAnswered(task=name, result=given.model_copy(update={"host": host, "lacks": bool(lacks)}))


def play(state: RunState, ill: str, *hosts: Host, until: float) -> list[Event]:
    """Answer all orders a second after they were sent, those of the ill host badly; return what was decided."""
    decided: list[Event] = []
    while state.at < until:
        now = state.at + 1.0
        for one in list(state.in_phase("running")):
            host = one.holder.rpartition("/")[0]
            given = answer(state, one.id, host)
            if host != ill:
                # A model's limit is no failure of the host, and the task is tried again for ever.
                given = OrderAnswered(task=one.id, result=given.result.model_copy(update={"not_before": now}))
            follow(state, given, at=now)
        while events := [one for one in ask(PLAIN, state, *hosts, now=now) if one.kind != "check.sent"]:
            follow(state, *events, at=now)
            decided += events
            follow(state, *take(state, *hosts), at=now)
        state.at = now
    return decided


def take(state: RunState, *hosts: Host) -> Iterator[MessageTaken]:
    """Have each order taken by its host, or by one with a free slot."""
    free = {host.name: host.slots for host in hosts}
    running = list(state.in_phase("running"))
    for one in running:
        free[one.holder.rpartition("/")[0]] = free.get(one.holder.rpartition("/")[0], 0) - 1
    for one in running:
        if not one.holder and one.message is not None:
            host = one.sent_to or max((name for name in free if name), key=lambda name: free[name])
            free[host] -= 1
            yield MessageTaken(message_id=one.message.message_id, host=host, pid=1)


def test_orders_go_to_hosts_that_can_do_them_and_others_use_what_is_left() -> None:
    of = course(
        task("a", agent=BuiltinAgent()), task("b", agent=BuiltinAgent()), task("c", agent=BuiltinAgent()), task("d")
    )
    assert orders(ask(of, begun(of), KEYLESS, KEYED)) == {"a": "keyed", "b": "keyed", "d": "keyless"}


def test_a_named_model_goes_to_the_host_that_has_its_key_and_elsewhere_only_where_none_has() -> None:
    of = course(task("a", agent=BuiltinAgent(model="m")), task("b", agent=BuiltinAgent(model="unheard-of")))
    keyed = Host(name="first", slots=2, can=frozenset(["type code"]))
    assert orders(ask(of, begun(of), keyed, KEYED)) == {"a": "keyed", "b": "first"}


def test_a_host_that_has_proven_nothing_may_be_sent_all() -> None:
    of = course(task("a", agent=CliAgent(program="claude"), runs_on=("gpu",)))
    assert orders(ask(of, begun(of), Host(name="own", slots=1), KEYED)) == {"a": "own"}


def test_an_agent_of_the_client_protocol_waits_for_a_host_with_that_part_and_the_key_of_a_known_program() -> None:
    of = course(task("own", agent=AcpAgent(run="my-agent --acp")), task("known", agent=AcpAgent(run="gemini --acp")))
    part = Host(name="part", slots=2, can=frozenset(["extra acp"]))
    keyed = Host(name="keyed", slots=1, can=part.can | {"key GEMINI_API_KEY", "sandbox bubblewrap"})
    assert orders(ask(of, begun(of), KEYLESS, part, keyed)) == {"own": "part", "known": "keyed"}


def test_hosts_that_are_equal_for_a_plan_share_its_orders_and_those_of_another_version_are_left_out() -> None:
    unlike, skewed = Host(name="unlike", slots=1, can=frozenset(["label gpu"])), Host(name="new", slots=0, ours=False)
    of = course(task("a"), task("b"))
    assert orders(ask(of, begun(of), ONE, unlike)) == {"a": "", "b": ""}
    assert orders(ask(of, begun(of), ONE, skewed)) == {"a": "one", "b": "one"}


def test_what_no_host_can_do_is_told_at_once_and_waits_while_others_go_on() -> None:
    of = course(task("a", runs_on=("gpu",)), task("b"))
    state = begun(of)
    (told,) = ask(of, state, KEYLESS)
    assert isinstance(told, HostsLacking)
    assert told.tasks == {"a": ("the label 'gpu' (forgepool worker --label gpu)",)}
    follow(state, told)
    (order,) = ask(of, state, KEYLESS)
    assert isinstance(order, OrderSent) and order.task == "b"
    follow(state, order)
    assert ask(of, state, KEYLESS, now=1e6) == [], "it waits, and is told of once"
    with_gpu = Host(name="big", slots=1, can=frozenset(["label gpu"]))
    (found,) = ask(of, state, KEYLESS, with_gpu)
    assert found == HostsLacking(tasks={})
    follow(state, found)
    assert orders(ask(of, state, KEYLESS, with_gpu)) == {"a": "big"}


def test_the_run_stops_with_one_question_when_all_that_is_left_waits_for_a_host() -> None:
    of = course(task("a", runs_on=("gpu",)), task("b", "a"))
    state = begun(of)
    follow(state, *ask(of, state, KEYLESS), at=100.0)
    assert ask(of, state, KEYLESS, now=130.0) == []
    (stopped,) = ask(of, state, KEYLESS, now=161.0)
    assert isinstance(stopped, GateHalted) and stopped.infrastructure
    assert stopped.why.startswith("no present host can do 'a': missing is the label 'gpu'")
    assert stopped.why.endswith(f"forgepool resume {RUN}")
    follow(state, stopped)
    assert state.halt_words == sentence(stopped) == f"the run stops: {stopped.why}", "landing has nothing to do with it"


def test_a_host_that_lacks_a_key_passes_the_task_on_and_the_attempt_does_not_count() -> None:
    of = course(task("a", agent=BuiltinAgent(), attempts=1))
    state = begun(of)
    hosts = (Host(name="bad-key", slots=1), Host(name="good", slots=1))
    (order,) = ask(of, state, *hosts)
    follow(state, order)
    follow(state, answer(state, "a", "bad-key", "needs_human", lacks="the key is refused"))
    (passed,) = ask(of, state, *hosts)
    assert passed == TaskPassedOn(task="a", host="bad-key", why="the key is refused")
    follow(state, passed)
    again = ask(of, state, *hosts)
    assert orders(again) == {"a": "good"} and state.tasks["a"].charged == 0
    follow(state, *again)
    follow(state, answer(state, "a", "good", "needs_human", lacks="the key is refused, too"))
    (parked,) = ask(of, state, *hosts)
    assert isinstance(parked, TaskParked) and "the key is refused, too" in parked.question


def test_a_resumed_run_tries_again_a_host_that_lacked_something() -> None:
    of = course(task("a", agent=BuiltinAgent()))
    state = begun(of)
    hosts = (Host(name="a-host", slots=1), Host(name="b-host", slots=1))
    follow(state, *ask(of, state, *hosts))
    follow(state, answer(state, "a", "a-host", "needs_human", lacks="no key"))
    follow(state, *ask(of, state, *hosts))
    assert state.tasks["a"].unfit
    assert orders(ask(of, state, *hosts)) == {"a": "b-host"}
    follow(state, RunResumed(tip="c0"))
    assert orders(ask(of, state, *hosts)) == {"a": ""}, "any of them may have it"


def test_an_ill_host_is_suspended_after_three_failures_and_probed_ever_later() -> None:
    state = begun(PLAIN)
    decided = play(state, "one", ONE, OTHER, until=1000.0)
    suspended = [one for one in decided if isinstance(one, HostSuspended)]
    assert "3 of its last 3 answers, lastly: the disk is full" in suspended[0].why
    # An order is sent after the end of a pause, and fails a second later.
    pauses = [round(after.until - before.until, -1) for before, after in pairwise(suspended)]
    assert suspended[0].until == 102.0 + 60.0 and pauses == [120.0, 240.0, 240.0, 240.0]
    at_one = [one for one in decided if isinstance(one, OrderSent) and one.host == "one"]
    assert len(at_one) == len(pauses), "three were taken at first, and one is sent for each probe"
    assert not state.streaks and not state.halted, "the mistake is the host's, and not the run's"


def test_a_good_probe_readmits_a_host_with_all_its_slots() -> None:
    state = begun(PLAIN)
    play(state, "one", ONE, OTHER, until=110.0)
    assert state.hosts["one"].until
    (readmitted,) = (one for one in play(state, "", ONE, until=170.0) if isinstance(one, HostReadmitted))
    assert readmitted.host == "one" and state.hosts["one"].places(3, 170.0) == 3


def test_the_last_host_is_never_suspended() -> None:
    state = begun(PLAIN)
    decided = play(state, "one", ONE, until=130.0)
    assert not [one for one in decided if isinstance(one, HostSuspended)]
    assert sum(isinstance(one, OrderSent) for one in decided) > 3, "it is tried again, one order at a time"


@pytest.mark.parametrize("serving", [False, True])
def test_a_host_of_the_gate_alone_is_suspended_where_another_serves_its_queue(serving: bool) -> None:
    of = GateCourse(PLAIN.plan, {}, {}) if serving else course(task("a"))
    checks, landings = frozenset(["gate", "spare"]), frozenset(["gate"])

    def suspended(*gate_hosts: frozenset[str], takes_orders: bool = False) -> list[str]:
        state = begun(of)
        for at in (1.0, 2.0, 3.0):
            state.note_host("gate", failed=True, detail="the disk is full", at=at)
        hosts = (Host(name="gate", slots=1),) if takes_orders else ()
        return [one.host for one in ask(of, state, *hosts, gate_hosts=gate_hosts) if isinstance(one, HostSuspended)]

    assert suspended(checks, landings) == ["gate"]
    assert suspended(landings) == suspended() == []
    assert suspended(checks, takes_orders=True) == (["gate"] if serving else []), "the last one that takes orders"


def test_the_only_host_of_our_version_is_not_suspended() -> None:
    decided = play(begun(PLAIN), "one", ONE, Host(name="old", slots=0, ours=False), until=160.0)
    assert not any(isinstance(each, HostSuspended) for each in decided)


def test_a_suspended_host_that_is_the_last_left_gets_one_order_at_a_time() -> None:
    told = (HostSuspended(host="one", why="w", until=160.0), HostSuspended(host="other", why="w", until=150.0))
    state = begun(PLAIN, *told)
    assert orders(ask(PLAIN, state, ONE, Host(name="well", slots=1))) == {"t0": "well"}
    sent_now = ask(PLAIN, state, ONE, OTHER)
    assert orders(sent_now) == {"t0": "other"}, "its suspension ends first"
    follow(state, *sent_now)
    assert orders(ask(PLAIN, state, ONE, OTHER)) == {}


def test_a_task_that_failed_at_a_host_goes_to_another_first() -> None:
    of = course(task("a"))
    state = begun(of)
    (first,) = ask(of, state, ONE, OTHER)
    follow(state, first)
    follow(state, answer(state, "a", "one"))
    assert orders(ask(of, state, ONE, OTHER, now=200.0)) == {"a": "other"}


def test_without_a_host_an_order_is_for_any_that_comes() -> None:
    """A resumed run sends its orders again before its own workers are there."""
    state = begun(PLAIN, sent("t0"))
    places = places_of(PLAIN, state, 100.0, ())
    assert places.able(state.tasks["t0"]) == [] and places.take(state.tasks["t0"]) == ""
    assert places.take(state.tasks["t0"], but="gone") is None


def test_an_order_with_labels_waits_in_its_hosts_own_queue_where_no_host_that_comes_later_takes_it() -> None:
    of = course(task("a", runs_on=("gpu",)), task("b", runs_on=("gpu",)))
    one, other = (Host(name=name, slots=1, can=frozenset(["label gpu"])) for name in ("one", "other"))
    assert sorted(orders(ask(of, begun(of), one, other)).values()) == ["one", "other"]
    plain = course(task("a"), task("b"))
    assert [*orders(ask(plain, begun(plain), one, other)).values()] == ["", ""]


def _note(health: HostHealth, *failed: bool, at: float = 0.0) -> None:
    for each in failed:
        health.note(each, "the disk is full", at)


def test_answers_of_a_suspended_host_to_earlier_orders_say_nothing_new() -> None:
    health = HostHealth()
    health.suspend(160.0, "w")
    _note(health, True, at=159.0)
    assert not health.is_ill, "what was sent before its suspension has failed, too"
    _note(health, False, at=159.0)
    assert not health.is_well_again, "no probe was sent"
    _note(health, True, at=160.0)
    assert health.is_ill, "the probe has failed"


def test_a_host_that_fails_gets_fewer_orders_until_it_is_well() -> None:
    health, places = HostHealth(), list[int]()
    for failed in (None, True, True, False):
        if failed is not None:
            _note(health, failed)
        places.append(health.places(8, 0.0))
    assert places == [8, 2, 1, 8]


def test_a_host_that_fails_most_of_its_last_orders_is_ill_though_never_three_in_a_row() -> None:
    health, answers = HostHealth(), (True, True, False) * 3
    ill = list[bool]()
    for failed in answers:
        _note(health, failed)
        ill.append(health.is_ill)
    assert ill.index(True) == 7
