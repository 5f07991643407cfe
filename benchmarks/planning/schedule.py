"""
Compares the makespan of our order of tasks with two simpler orders, on generated plans and a virtual clock.

    python benchmarks/planning/schedule.py [--quick] [--seed N]

Each number is the makespan divided by a lower bound that no schedule can beat. The bound is the largest of three: the
critical path, all work divided by the slots, and the work of all tasks that write one and the same file.

`ours` is our order with every duration known; `blind` is our order with none known. `waves` starts all tasks that may
run together, waits until the last of them has landed, and starts the next. `plan` starts any task that may run, in the
order of the plan. All four obey the same needs and locks. Only our own decisions are timed.
"""

import argparse
import heapq
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from statistics import geometric_mean

from forgepool.orchestrator.plan.graph import Graph, TaskNeeds
from forgepool.orchestrator.plan.overlap import Globs
from forgepool.orchestrator.plan.readiness import Locked, count_overtaken, ready

USUAL_S = 300.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Generated tasks, the seconds each truly takes, and the work on the busiest file."""

    kind: str
    tasks: tuple[TaskNeeds, ...]
    busiest_file_s: float

    def bound_s(self, graph: Graph, slots: int) -> float:
        """Return the seconds that no schedule can beat."""
        critical = max(graph.remaining_path_s(task) for task in graph.order)
        return max(critical, sum(graph.duration_s.values()) / slots, self.busiest_file_s)


Draw = Callable[[int, int, random.Random], tuple[list[int], list[str]]]
"""A function from a task's place, the plan's size and chance to the earlier tasks it needs and the paths it writes."""


def chains(at: int, size: int, chance: random.Random) -> tuple[list[int], list[str]]:
    """Draw lines of ten tasks, in which each task needs the one before it."""
    abreast = max(1, size // 10)
    line = at % abreast
    return ([at - abreast] if at >= abreast else [], [f"src/line{line}/{at}.py"])


def diamonds(at: int, size: int, chance: random.Random) -> tuple[list[int], list[str]]:
    """Draw rows of diamonds side by side: one task, six that need it, one that needs those six, and so on."""
    rows = max(1, size // 80)
    row, place = at % rows, at // rows
    step = place % 7
    tip = place - step
    needed = range(tip - 6, tip) if step == 0 and tip else [tip] if step else []
    return [need * rows + row for need in needed], [f"src/row{row}/{at}.py"]


def wide(at: int, size: int, chance: random.Random) -> tuple[list[int], list[str]]:
    """Draw tasks without needs."""
    return [], [f"src/{at}.py"]


def layered(at: int, size: int, chance: random.Random) -> tuple[list[int], list[str]]:
    """Draw layers of tasks; each task needs one to three random tasks of the layer before."""
    breadth = max(3, round(size**0.5))
    layer = at // breadth * breadth
    before = range(max(0, layer - breadth), layer)
    return chance.sample(before, min(len(before), chance.randint(1, 3))), [f"src/{at}.py"]


def conflicts(at: int, size: int, chance: random.Random) -> tuple[list[int], list[str]]:
    """Draw few needs; each task writes one or two files of a small pool, and a few also a whole folder of it."""
    pool = max(4, size // 12)
    needs = [chance.randrange(at)] if at and chance.random() < 0.3 else []
    files = [f"src/{chance.randrange(pool) % 7}/f{chance.randrange(pool)}.py" for _ in range(chance.randint(1, 2))]
    if chance.random() < 4 / size:
        files.append(f"src/{chance.randrange(7)}/")
    return needs, files


def generate(draw: Draw, size: int, seed: int) -> Plan:
    chance = random.Random(f"{draw.__name__}-{size}-{seed}")
    tasks: list[TaskNeeds] = []
    on_file: dict[str, float] = defaultdict(float)
    for at in range(size):
        needs, files = draw(at, size, chance)
        seconds = min(20.0, chance.lognormvariate(0.0, 0.8)) * USUAL_S
        for name in set(files):
            on_file[name] += seconds
        named = tuple(f"t{need}" for need in needs)
        tasks.append(TaskNeeds(id=f"t{at}", needs=named, writes=Globs.of(files), duration_s=seconds))
    chance.shuffle(tasks)
    shuffled = tuple(replace(task, position=at) for at, task in enumerate(tasks))
    return Plan(kind=draw.__name__, tasks=shuffled, busiest_file_s=max(on_file.values()))


@dataclass(frozen=True, kw_only=True)
class Now:
    """The state that a policy may look at."""

    landed: set[str]
    in_flight: dict[str, Locked]
    able: set[str]
    """Waiting tasks whose needs have landed."""
    free: int


Policy = Callable[[Now], list[str]]


@dataclass(kw_only=True)
class Ours:
    """Our policy: `ready` and `count_overtaken`, with a stop-watch around both."""

    graph: Graph
    overtaken: dict[str, int] = field(default_factory=dict)
    started: int = 0
    seconds: float = 0.0

    def __call__(self, now: Now) -> list[str]:
        began = time.perf_counter()
        chosen = ready(
            self.graph,
            landed=now.landed,
            in_flight=now.in_flight,
            waiting=now.able,
            slots=now.free,
            overtaken=self.overtaken,
        )
        self.overtaken = count_overtaken(self.graph, chosen, landed=now.landed, waiting=now.able, before=self.overtaken)
        self.seconds += time.perf_counter() - began
        self.started += len(chosen)
        return chosen


def compatible(graph: Graph, now: Now, most: int) -> list[str]:
    """Return at most `most` tasks that may start together, in the order of the plan."""
    refused = set().union(*(graph.find_locked_out(task, lock) for task, lock in now.in_flight.items()))
    chosen: list[str] = []
    for task in sorted(now.able - refused, key=lambda name: graph.tasks[name].position):
        if len(chosen) == most:
            break
        if task not in refused:
            chosen.append(task)
            refused |= graph.find_locked_out(task, graph.tasks[task].writes)
    return chosen


def waves(graph: Graph) -> Policy:
    wave: list[str] = []

    def choose(now: Now) -> list[str]:
        if not wave and not now.in_flight:
            wave.extend(compatible(graph, now, len(now.able)))
        chosen = wave[: now.free]
        del wave[: now.free]
        return chosen

    return choose


def makespan_s(graph: Graph, duration_s: dict[str, float], slots: int, policy: Policy) -> float:
    """Run the plan on a virtual clock, and return the seconds until its last landing."""
    now = Now(landed=set(), in_flight={}, able={t.id for t in graph.tasks.values() if not t.needs}, free=slots)
    ends: list[tuple[float, str]] = []
    clock = 0.0
    while True:
        chosen = policy(replace(now, free=slots - len(now.in_flight)))
        for task in chosen:
            now.in_flight[task] = graph.tasks[task].writes
            now.able.remove(task)
            heapq.heappush(ends, (clock + duration_s[task], task))
        if not ends:
            assert len(now.landed) == len(graph.tasks), "a task never started"
            return clock
        clock, task = heapq.heappop(ends)
        now.in_flight.pop(task)
        now.landed.add(task)
        now.able.update(then for then in graph.after[task] if graph.needs_landed(then, now.landed))


@dataclass(frozen=True, kw_only=True)
class Row:
    label: str
    ratios: dict[str, float]
    decisions_per_s: float

    def __str__(self) -> str:
        return self.label + "".join(f"{one:8.3f}" for one in self.ratios.values()) + f"{self.decisions_per_s:13,.0f}"


def measure(plan: Plan, slots: int) -> Row:
    graph = Graph(plan.tasks)
    blind = Graph([replace(task, duration_s=None) for task in plan.tasks])
    ours = Ours(graph=graph)
    policies: dict[str, tuple[Graph, Policy]] = {
        "ours": (graph, ours),
        "blind": (blind, Ours(graph=blind)),
        "waves": (graph, waves(graph)),
        "plan": (graph, lambda now: compatible(graph, now, now.free)),
    }
    bound_s, truth = plan.bound_s(graph, slots), dict(graph.duration_s)
    ratios = {name: makespan_s(own, truth, slots, policy) / bound_s for name, (own, policy) in policies.items()}
    label = f"{plan.kind:<10}{len(plan.tasks):>7}{slots:>7}{bound_s / 3600:>9.1f}h"
    return Row(label=label, ratios=ratios, decisions_per_s=ours.started / ours.seconds)


def rows(*, quick: bool, seed: int) -> Iterator[Row]:
    for draw in (chains, diamonds, wide, layered, conflicts):
        for size in (20, 100, 1000) if quick else (20, 100, 1000, 10_000):
            plan = generate(draw, size, seed)
            yield from (measure(plan, slots) for slots in (2, 4, 8, 16))


def main() -> None:
    options = argparse.ArgumentParser(description="Makespans over a lower bound, and decisions per second.")
    options.add_argument("--quick", action="store_true", help="plans of at most 1,000 tasks")
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    columns = ("ours", "blind", "waves", "plan")
    print(f"{'plan':<10}  tasks  slots     bound" + "".join(f"{name:>8}" for name in columns) + "  decisions/s")
    found: list[Row] = []
    for row in rows(quick=chosen.quick, seed=chosen.seed):
        found.append(row)
        print(row, flush=True)
    means = {name: geometric_mean(row.ratios[name] for row in found) for name in columns}
    slowest = min(row.decisions_per_s for row in found)
    print(Row(label=f"{'geometric mean; slowest':<34}", ratios=means, decisions_per_s=slowest))


if __name__ == "__main__":
    main()
