"""Which tasks start and in which order: locks never overlap, needs land first, and no task waits forever."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forgepool.orchestrator.plan.graph import Graph, TaskNeeds, find_cycle
from forgepool.orchestrator.plan.overlap import NOTHING, Globs
from forgepool.orchestrator.plan.readiness import (
    PATIENCE,
    Locked,
    Waiting,
    count_overtaken,
    preview,
    ready,
    why_waiting,
)


def task(
    name: str,
    *needs: str,
    writes: Sequence[str] | None = (),
    reads: Sequence[str] = (),
    priority: int = 0,
    seconds: float | None = None,
    position: int = 0,
) -> TaskNeeds:
    return TaskNeeds(
        id=name,
        needs=needs,
        writes=None if writes is None else Globs.of(writes),
        reads=Globs.of(reads),
        priority=priority,
        duration_s=seconds,
        position=position,
    )


def starts(graph: Graph, *, landed: Sequence[str] = (), in_flight: Sequence[str] = (), slots: int = 99) -> list[str]:
    flying: dict[str, Locked] = {name: graph.tasks[name].writes for name in in_flight}
    waiting = [name for name in graph.tasks if name not in landed and name not in in_flight]
    return ready(graph, landed=set(landed), in_flight=flying, waiting=waiting, slots=slots)


def test_a_task_starts_before_its_needs() -> None:
    """A task starts when all its needs have landed; in flight is not enough."""
    graph = Graph([task("a"), task("b"), task("c", "a", "b")])
    assert starts(graph) == ["a", "b"]
    assert starts(graph, landed=["a"], in_flight=["b"]) == []
    assert starts(graph, landed=["a", "b"]) == ["c"]


def test_order_ignores_priority() -> None:
    """Priority comes before the longest path."""
    graph = Graph([task("long", seconds=9), task("urgent", seconds=1, priority=1), task("later", priority=-1)])
    assert graph.order == ("urgent", "long", "later")


def test_order_ignores_the_longest_path() -> None:
    """At equal priority, the task with the longest path to the end goes first, its own duration included."""
    graph = Graph([task("a", seconds=5), task("b", seconds=2), task("c", "b", seconds=4), task("d", seconds=7)])
    assert graph.order == ("d", "b", "a", "c")
    assert [graph.remaining_path_s(name) for name in graph.order] == [7, 6, 5, 4]


def test_order_ignores_dependents() -> None:
    """At equal paths, the task with more dependents goes first."""
    graph = Graph([task("a"), task("b"), task("c", "a"), task("d", "b"), task("e", "b")])
    assert graph.order[:2] == ("b", "a")
    assert graph.dependents("b") == 2
    deep = Graph([task("a"), task("b", "a"), task("c", "a", "b"), task("d", "c", "b")])
    assert [deep.dependents(name) for name in "abcd"] == [3, 2, 1, 0]


def test_order_ignores_the_plan() -> None:
    """If nothing else differs, the plan's order holds."""
    names = [f"t{at}" for at in range(9)]
    random.Random(7).shuffle(names)
    graph = Graph([task(name, position=at) for at, name in enumerate(names)])
    assert starts(graph) == names


@pytest.mark.parametrize(
    ("given_s", "learned", "expected"),
    [
        ((None, None), {}, (1.0, 1.0)),
        ((30.0, None), {}, (30.0, 30.0)),
        ((30.0, None), {"a": 5.0, "b": 8.0}, (30.0, 8.0)),
        ((0.0, 4.0), {}, (0.0, 4.0)),
    ],
)
def test_durations_are_guessed_though_known(
    given_s: tuple[float | None, ...], learned: Mapping[str, float], expected: tuple[float, ...]
) -> None:
    """Durations are as given, else as learned, else the usual of the known ones, else equal."""
    graph = Graph([task(name, seconds=s) for name, s in zip("ab", given_s, strict=True)], learned=learned)
    assert tuple(graph.duration_s[name] for name in "ab") == expected


def test_slots_are_exceeded() -> None:
    """No more tasks start than there are slots."""
    graph = Graph([task(f"t{at}", position=at) for at in range(5)])
    assert starts(graph, slots=2) == ["t0", "t1"]
    assert starts(graph, slots=0) == []
    assert starts(graph, slots=-1) == []


def test_writes_overlap_in_flight() -> None:
    """A task does not start while its writes overlap a held lock; other tasks do."""
    graph = Graph([task("a", writes=["src"]), task("b", writes=["src/*.py"], position=1), task("c", writes=["docs"])])
    assert starts(graph, in_flight=["a"]) == ["c"]
    assert starts(graph) == ["a", "c"]
    assert starts(graph, landed=["a"]) == ["c", "b"]


def test_reads_are_forgotten() -> None:
    """A reader and a writer of the same paths do not run together, unless reads do not block."""
    tasks = [task("writer", writes=["src/a.py"]), task("reader", writes=["docs"], reads=["src"])]
    for first, second in (("writer", "reader"), ("reader", "writer")):
        assert starts(Graph(tasks), in_flight=[first]) == []
        assert starts(Graph(tasks, reads_block=False), in_flight=[first]) == [second]
    readers = Graph([task("one", reads=["src"]), task("two", reads=["src"])])
    assert starts(readers) == ["one", "two"]


def test_a_lock_taken_since_is_ignored() -> None:
    """The lock held now counts, not the declared one."""
    graph = Graph([task("a", writes=["a"]), task("b", writes=["b"]), task("free", writes=None)])
    held = {"a": Globs.of(["a"]) | Globs.exactly(["b/x.py"])}
    assert ready(graph, landed=set(), in_flight=held, waiting=["b"], slots=9) == []
    foreign = {"of-another-run": Globs.of(["b"])}
    assert ready(graph, landed=set(), in_flight=foreign, waiting=["a", "b"], slots=9) == ["a"]
    taken = {"free": Globs.exactly(["b/x.py"])}
    assert ready(graph, landed=set(), in_flight=taken, waiting=["a", "b"], slots=9) == ["a"]


def test_undeclared_tasks_wait_by_default() -> None:
    """By default a task without globs holds no lock until its changes are known."""
    graph = Graph([task("a", writes=None), task("b", writes=None), task("c", writes=["**"])])
    assert starts(graph) == ["a", "b", "c"]


def test_exclusive_tasks_run_beside_others() -> None:
    """In exclusive mode a task without globs runs alone."""
    tasks = [task("a", writes=None), task("b", writes=["b"]), task("c", writes=[]), task("d", writes=None)]
    graph = Graph([*tasks], undeclared="exclusive")
    assert starts(graph) == ["a"]
    assert starts(graph, in_flight=["a"]) == []
    assert starts(graph, landed=["a"], in_flight=["b"]) == ["c"]
    assert starts(graph, landed=["a", "b", "c"]) == ["d"]
    assert ready(graph, landed=set(), in_flight={"of-another-run": None}, waiting=["a", "b"], slots=9) == ["b"]


def test_find_cycle_misses_one() -> None:
    """A cycle of needs is found and reported in order, and no cycle is invented."""
    assert find_cycle([task("a", "b"), task("b", "c"), task("c", "a"), task("d", "a")]) == ("a", "b", "c")
    assert find_cycle([task("x", "a"), task("a", "a")]) == ("a",)
    assert find_cycle([task("a"), task("b", "a"), task("c", "a", "b"), task("d", "gone")]) is None
    long = [task("t0"), *(task(f"t{at}", f"t{at - 1}") for at in range(1, 5000))]
    assert find_cycle(long) is None
    assert len(find_cycle([*long[1:], task("t0", "t4999")]) or ()) == 5000


@pytest.mark.parametrize(
    ("tasks", "part"),
    [
        ([task("a", "b"), task("b", "a")], "a -> b -> a"),
        ([task("a", "gone")], "task 'a' needs 'gone'"),
        ([task("a"), task("a")], "two tasks have one id"),
    ],
)
def test_graph_accepts_what_can_never_finish(tasks: list[TaskNeeds], part: str) -> None:
    """A graph accepts only tasks that can all start at some time."""
    with pytest.raises(ValueError, match=part):
        Graph(tasks)


def test_why_waiting_says_nothing() -> None:
    """A waiting task reports its reason: needs, a lock with both globs, its turn, or a slot."""
    graph = Graph(
        [
            task("a", writes=["src/*.py"]),
            task("b", "a", "c", writes=["src/b.py"], reads=["docs"]),
            task("c", writes=["docs/x.md"]),
            task("d", writes=["lib"], reads=["docs"], position=9),
            task("wide", writes=["lib", "more"], priority=1),
        ]
    )
    src = {"a": graph.tasks["a"].writes}
    docs = {"c": graph.tasks["c"].writes}
    lib = {"d": Globs.of(["lib"])}
    assert why_waiting(graph, "b", landed={"c"}, in_flight=src, failed={"a"}) == Waiting(
        needs=("a",), failed=("a",), lock=("a", "src/*.py", "src/b.py")
    )
    assert why_waiting(graph, "d", landed=set(), in_flight=src | docs).lock == ("c", "docs/x.md", "docs")
    assert why_waiting(graph, "c", landed=set(), in_flight=lib).lock == ("d", "docs", "docs/x.md")
    patient, impatient = {"wide": PATIENCE - 1}, {"wide": PATIENCE}
    assert why_waiting(graph, "d", landed=set(), in_flight={}, overtaken=patient).slot
    assert why_waiting(graph, "d", landed=set(), in_flight={}, overtaken=impatient).reserved == (
        "wide",
        "lib",
        "lib",
    )
    assert why_waiting(graph, "d", landed=set(), in_flight={}, slots=1) == Waiting()
    alone = Graph([task("a", writes=None), task("b", writes=["b"])], undeclared="exclusive")
    assert why_waiting(alone, "b", landed=set(), in_flight={"a": None}).lock == ("a", "**", "**")


def test_preview_differs_from_the_run() -> None:
    """The preview shows order, critical path, width, waves, and the pairs that locks keep apart."""
    graph = Graph(
        [
            task("a", writes=["src/a.py"], seconds=10),
            task("b", "a", writes=["src/a.py"], seconds=5),
            task("c", writes=["src/*.py"], seconds=1, position=2),
            task("d", writes=["docs"], reads=["src/a.py"], seconds=3, position=3),
            task("e", writes=["lib"], seconds=4, position=4),
        ]
    )
    seen = preview(graph)
    assert (seen.critical_path, seen.critical_path_s) == (("a", "b"), 15)
    assert seen.order == ("a", "b", "e", "d", "c")
    assert seen.waves == (("a", "e"), ("b",), ("d",), ("c",))
    assert (seen.width, seen.width_is, seen.after_waves) == (2, "exact", 0)
    assert seen.conflicts == (
        ("a", "c", "src/a.py", "src/*.py"),
        ("a", "d", "src/a.py", "src/a.py"),
        ("b", "c", "src/a.py", "src/*.py"),
        ("b", "d", "src/a.py", "src/a.py"),
        ("c", "d", "src/*.py", "src/a.py"),
    )
    assert preview(Graph([])).critical_path_s == 0.0
    alone = preview(Graph([task("a", writes=None), task("b")], undeclared="exclusive"))
    assert (alone.alone, alone.conflicts, alone.width) == (("a",), (), 1)


def test_preview_of_a_large_plan_is_endless() -> None:
    """A long preview is cut, and says so."""
    graph = Graph([task(f"t{at}", writes=["one"], position=at) for at in range(300)])
    seen = preview(graph, most_waves=10, most_conflicts=20)
    assert (len(seen.waves), seen.after_waves) == (10, 290)
    assert (len(seen.conflicts), seen.more_conflicts) == (20, True)
    assert (seen.width, seen.width_is) == (1, "simulated")


# --- random plans, run step by step ---

_FILES = ("a.py", "src/a.py", "src/b.py", "src", "src/*.py", "docs/", "**/*.md", "docs/x.md", "lib/{a,b}.py")
_globs = st.lists(st.sampled_from(_FILES), max_size=2)


@st.composite
def plans(draw: st.DrawFn) -> list[TaskNeeds]:
    size = draw(st.integers(1, 12))
    return [
        task(
            f"t{at}",
            *draw(st.lists(st.sampled_from([f"t{one}" for one in range(at)]), max_size=2) if at else st.just([])),
            writes=draw(st.none() | _globs),
            reads=draw(_globs),
            priority=draw(st.integers(-1, 1)),
            seconds=draw(st.none() | st.integers(1, 9)),
            position=at,
        )
        for at in range(size)
    ]


@dataclass
class Run:
    """A run of a plan in which the caller decides what lands or is given up, and every rule is asserted."""

    graph: Graph
    reads_block: bool
    slots: int
    landed: set[str] = field(default_factory=set)
    in_flight: dict[str, Locked] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    overtaken: dict[str, int] = field(default_factory=dict)
    suffered: dict[str, int] = field(default_factory=dict)

    def start(self) -> list[str]:
        chosen = ready(
            self.graph,
            landed=self.landed,
            in_flight=self.in_flight,
            waiting=self.waiting,
            slots=self.slots - len(self.in_flight),
            overtaken=self.overtaken,
        )
        self.overtaken = count_overtaken(
            self.graph, chosen, landed=self.landed, waiting=self.waiting, before=self.overtaken
        )
        for name in chosen:
            own = self.graph.tasks[name]
            assert set(own.needs) <= self.landed
            assert not [other for other in self.in_flight if self.apart(name, other)]
            self.waiting.remove(name)
            self.in_flight[name] = own.writes
            self.count(name)
            self.suffered.pop(name, None)
        assert len(self.in_flight) <= self.slots
        if not self.in_flight:
            assert not [name for name in self.waiting if self.graph.needs_landed(name, self.landed)], "stuck"
        return chosen

    def apart(self, a: str, b: str) -> bool:
        """Return whether the rules keep the two apart, in a second implementation."""
        if {a, b} & self.graph.alone:
            return True
        one, other, held = self.graph.tasks[a], self.graph.tasks[b], self.in_flight.get(b)
        writes = one.writes or NOTHING
        reads = self.reads_block and (one.reads.meets(held or NOTHING) or writes.meets(other.reads))
        return writes.meets(held or NOTHING) or reads

    def count(self, low: str) -> None:
        """Count how often each task has been overtaken, without the functions under test."""
        for high in self.waiting:
            higher = self.graph.order.index(high) < self.graph.order.index(low)
            if higher and set(self.graph.tasks[high].needs) <= self.landed and self.apart(high, low):
                self.suffered[high] = self.suffered.get(high, 0) + 1
                assert self.suffered[high] <= PATIENCE


@given(
    plans(),
    st.booleans(),
    st.booleans(),
    st.integers(1, 5),
    st.integers(0, 1 << 16),
)
@settings(max_examples=400, deadline=None)
def test_a_rule_is_broken_on_the_way(
    tasks: list[TaskNeeds], exclusive: bool, reads_block: bool, slots: int, seed: int
) -> None:
    """
    No locks overlap, needs land first, and everything lands in the end. Attempts are given up and locks grow on the
    way.
    """
    graph = Graph(tasks, undeclared="exclusive" if exclusive else "optimistic", reads_block=reads_block)
    chance = random.Random(seed)
    run = Run(graph, reads_block, slots, waiting=set(graph.tasks))
    retries = 10
    while run.waiting or run.in_flight:
        run.start()
        name = chance.choice(sorted(run.in_flight))
        if chance.random() < 0.2:
            path = Globs.exactly([chance.choice(["src/new.py", "docs/y.md", "top.py"])])
            # A lock is extended only where it is free, as the run loop does.
            if not [other for other, held in run.in_flight.items() if other != name and held and held.meets(path)]:
                run.in_flight[name] = (run.in_flight[name] or NOTHING) | path
                continue
        run.in_flight.pop(name)
        if retries and chance.random() < 0.2:
            retries -= 1
            run.waiting.add(name)
        else:
            run.landed.add(name)
    assert run.landed == set(graph.tasks)


@given(plans())
@settings(max_examples=200, deadline=None)
def test_a_startable_task_is_left_waiting(tasks: list[TaskNeeds]) -> None:
    """With slots to spare, a task that does not start lacks a need or conflicts with one that did."""
    graph = Graph(tasks)
    run = Run(graph, True, 99, waiting=set(graph.tasks))
    run.start()
    for name in run.waiting:
        lacks = not graph.needs_landed(name, run.landed)
        assert lacks or [other for other in run.in_flight if run.apart(name, other)]
        waits = why_waiting(graph, name, landed=run.landed, in_flight=run.in_flight)
        assert bool(waits.needs) is lacks
        assert lacks or waits.lock is not None


@given(plans())
@settings(max_examples=200, deadline=None)
def test_width_differs_from_trying_all(tasks: list[TaskNeeds]) -> None:
    """The exact width is the size of the largest set of tasks that can be in flight together."""
    graph = Graph(tasks[:8])
    run = Run(graph, True, 99, in_flight={name: own.writes for name, own in graph.tasks.items()})
    names = list(graph.tasks)
    together = [[name for at, name in enumerate(names) if chosen >> at & 1] for chosen in range(1 << len(names))]
    fitting = (
        len(some)
        for some in together
        if not any(a != b and (graph.is_ordered(a, b) or run.apart(a, b)) for a in some for b in some)
    )
    assert preview(graph).width == max(fitting)


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_task_is_overtaken_for_ever(exclusive: bool) -> None:
    """A wide lock starts after at most a fixed number of narrow ones."""
    narrow = [task(f"n{at}", writes=[f"src/{at}.py"], position=at) for at in range(200)]
    wide = task("wide", writes=None if exclusive else ["src"], priority=1, position=-1)
    graph = Graph([*narrow, wide], undeclared="exclusive")
    run = Run(graph, True, 4, waiting=set(graph.tasks) - {"wide"})
    run.start()
    run.waiting.add("wide")
    chance, before = random.Random(3), 0
    while "wide" not in run.in_flight:
        name = chance.choice(sorted(run.in_flight))
        run.in_flight.pop(name)
        run.landed.add(name)
        before += len([name for name in run.start() if name != "wide"])
    assert before == PATIENCE


def test_one_decision_overtakes_without_end() -> None:
    """The limit also holds within one decision, however many slots are free."""
    narrow = [task(f"n{at}", writes=[f"src/{at}.py"], position=at) for at in range(30)]
    graph = Graph([*narrow, task("wide", writes=["src"], priority=1)])
    busy: dict[str, Locked] = {"n0": graph.tasks["n0"].writes}
    waiting = [name for name in graph.order if name != "n0"]
    chosen = ready(graph, landed=set(), in_flight=busy, waiting=waiting, slots=20)
    assert chosen == [f"n{at}" for at in range(1, PATIENCE + 1)]
    chosen = ready(graph, landed=set(), in_flight=busy, waiting=waiting, slots=20, overtaken={"wide": 5})
    assert chosen == [f"n{at}" for at in range(1, PATIENCE - 4)]


def test_overtaking_is_counted_for_those_it_does_not_concern() -> None:
    """It counts for tasks that rank higher, have all their needs, and conflict with the started one."""
    graph = Graph(
        [
            task("wide", writes=["src"], priority=2),
            task("aside", writes=["docs"], priority=2),
            task("early", "aside", writes=["src"], priority=2),
            task("low", writes=["src/low.py"], priority=1),
            task("lower", writes=["src"]),
        ]
    )
    counts = count_overtaken(
        graph, ["low"], landed=set(), waiting=list(graph.order), before={"wide": 3, "low": 2, "gone": 1}
    )
    assert counts == {"wide": 4}


def test_needs_order_only_one_way() -> None:
    """Two tasks are ordered when one needs the other, in either order of the question."""
    graph = Graph([task("c", "b"), task("b", "a"), task("a"), task("d", "a")])
    assert graph.is_ordered("a", "c")
    assert graph.is_ordered("c", "a")
    assert not graph.is_ordered("c", "d")


def test_a_reservation_stops_those_it_does_not_concern() -> None:
    """While a task reserves its locks, tasks that do not conflict or that rank higher start."""
    graph = Graph(
        [
            task("top", writes=["src/top.py"], priority=2),
            task("wide", writes=["src"], priority=1),
            task("low", writes=["src/low.py"]),
            task("busy", writes=["src/busy.py"]),
            task("aside", writes=["docs"]),
        ]
    )
    chosen = ready(
        graph,
        landed=set(),
        in_flight={"busy": Globs.of(["src/busy.py"])},
        waiting=["top", "wide", "low", "aside"],
        slots=9,
        overtaken={"wide": PATIENCE},
    )
    assert chosen == ["top", "aside"]
