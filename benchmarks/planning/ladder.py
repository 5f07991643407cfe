"""
Compares policies of second attempts on public outcomes of coding agents, under a gate that lets wrong work pass.

    python benchmarks/planning/ladder.py ../shared/data/outcomes [--leak-by family] [--prices 1 3 3] [--rounds 40]

From the data: which agent solved which task, and so how the failures of two agents go together. A second attempt of
one agent is another of its recorded trials, never the same one twice; files with one trial a task have no such policy.

Assumed, since no file has it, and printed: prices, durations, the cost of a gate's run, a judge's skill, how much of
the wrong work one more reviewer finds, and that the gate never rejects right work. A later attempt knows nothing of the
earlier ones here, and real ones are told the reasons.

A gate with a leak of f passes wrong work with that chance. `--leak-by` says what shares one draw of it: nothing
(`attempt`), the attempts at a task by one family of models, which make the same mistake (`family`), or all attempts at
a task, whose tests are too weak (`task`).

Each round draws the tasks again with replacement, and all chances. Figures are means of the rounds, in brackets the
middle 95 % of them. `frontier` is the share of the rounds in which no other policy is as good in right landings, wrong
landings and cost per right landing, and better in one; `with time` counts the makespan, too.
"""

import argparse
import heapq
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Literal

SPREAD = 0.5
"""The standard deviation of the logarithm of an attempt's duration; its mean is 1, for every agent."""
GATE = 0.1
"""The cost of the gate, and of each further reviewer, as a share of a strong attempt; a gate takes as long, too."""
JUDGE = 0.5
"""The chance that a tournament's judge recognizes right work beside wrong work; else it chooses blindly."""
MISSED = (1.0, 0.65, 0.38)
"""The part of a leak that is left with one, two and three families of reviewers (from 33.6, 57.1 and 74.6 % found)."""
SLOTS = 12

Trials = dict[str, dict[str, tuple[int, int]]]
"""By agent and task: successes and trials."""


@dataclass(frozen=True, kw_only=True)
class Trio:
    """Three agents of one data set, each with its family."""

    data: str
    cheap: tuple[str, str]
    strong: tuple[str, str]
    other: tuple[str, str]

    def __getitem__(self, role: str) -> tuple[str, str]:
        return {"cheap": self.cheap, "strong": self.strong, "other": self.other}[role]


def _trio(data: str, form: str, cheap: str, strong: str, other: str) -> Trio:
    named = [(form % name, family) for name, family in (each.split(" ") for each in (cheap, strong, other))]
    return Trio(data=data, cheap=named[0], strong=named[1], other=named[2])


TERMINAL, PRO, VERIFIED = "terminalbench-responses_raw", "swebench_pro-responses", "swebench_verified-responses"
TRIOS = (
    _trio(TERMINAL, "terminus-2_%s", "claude-haiku-4-5-20251001_at_anthropic claude",
          "claude-opus-4-5-20251101_at_anthropic claude", "gpt-5_2_at_openai gpt"),
    _trio(TERMINAL, "terminus-2_%s", "gpt-5-mini_at_openai gpt", "gpt-5_2_at_openai gpt",
          "gemini-3-pro-preview_at_gemini gemini"),
    _trio(TERMINAL, "mini-swe-agent_%s", "gpt-5-mini_at_openai gpt", "gpt-5-codex_at_openai gpt",
          "claude-sonnet-4-5-20250929_at_anthropic claude"),
    _trio(PRO, "%s", "Claude~4.5~Haiku~--~10222025 claude", "Claude~4.5~Sonnet~-~10132025 claude",
          "GPT-5~-~10132025 gpt"),
    _trio(VERIFIED, "%s", "20241022_tools_claude-3-5-haiku claude", "20250522_tools_claude-4-opus claude",
          "20250807_openhands_gpt5 gpt"),
)  # fmt: skip


def read_trials(path: Path) -> Trials:
    """Read one file of outcomes; a single outcome is one trial."""
    found: Trials = {}
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        found[row["subject_id"].replace(" ", "~")] = {
            task: (one, 1) if isinstance(one, int) else (one["successes"], one["trials"])
            for task, one in row["responses"].items()
        }
    return found


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One attempt as it would go: right or not, its duration, and the draw against which a leak is held."""

    right: bool
    length: float
    chance: float
    luck: float
    """The draw of a tournament's judge."""
    price: float

    def passes(self, leak: float, reviewers: int = 1) -> bool:
        return self.right or self.chance < leak * MISSED[reviewers - 1]


Draws = dict[str, list[Attempt]]
"""By role, the attempts that it can make at one task, in order."""


def draw_task(
    trio: Trio, trials: Trials, task: str, prices: dict[str, float], leak_by: str, chance: random.Random
) -> Draws:
    """Draw every attempt at a task: recorded outcomes in a random order, the same for all policies."""
    of_task, of_family, draws = chance.random(), dict[str, float](), Draws()
    for role, price in prices.items():
        agent, family = trio[role]
        successes, count = trials[agent][task]
        outcomes = [True] * successes + [False] * (count - successes)
        chance.shuffle(outcomes)
        shared = of_family.setdefault(family, chance.random()) if leak_by == "family" else of_task
        draws[role] = [
            Attempt(
                right=right,
                length=chance.lognormvariate(-SPREAD * SPREAD / 2, SPREAD),
                chance=chance.random() if leak_by == "attempt" else shared,
                luck=chance.random(),
                price=price,
            )
            for right in outcomes[:3]
        ]
    return draws


@dataclass(frozen=True, kw_only=True)
class Ending:
    """The end of a task: its landing, what it cost, and how long it held each of its slots."""

    landed: Literal["right", "wrong", ""]
    cost: float
    slots: tuple[float, ...]


def _landed(attempt: Attempt | None) -> Literal["right", "wrong", ""]:
    return "" if attempt is None else "right" if attempt.right else "wrong"


def _taken(draws: Draws, roles: Sequence[str]) -> list[Attempt]:
    return [draws[role][roles[:at].count(role)] for at, role in enumerate(roles)]


def climb(draws: Draws, leak: float, gate: float, *, roles: Sequence[str], evidence: bool = False) -> Ending:
    """Make one attempt after the other until one passes; with `evidence`, each has one more family of reviewers."""
    cost = held = 0.0
    for rung, attempt in enumerate(_taken(draws, roles), 1):
        reviewers = rung if evidence else 1
        cost += attempt.price * attempt.length + gate * reviewers
        held += attempt.length + GATE
        if attempt.passes(leak, reviewers):
            return Ending(landed=_landed(attempt), cost=cost, slots=(held,))
    return Ending(landed="", cost=cost, slots=(held,))


def race(draws: Draws, leak: float, gate: float, *, roles: Sequence[str]) -> Ending:
    """Make all attempts at once; the first that passes lands, and the others stop and are paid for up to then."""
    runners = sorted(_taken(draws, roles), key=lambda one: one.length)
    winner = next((one for one in runners if one.passes(leak)), None)
    end = (winner or runners[-1]).length + GATE
    spent = sum(one.price * min(one.length, end) + gate * (one.length < end) for one in runners)
    return Ending(landed=_landed(winner), cost=spent, slots=tuple(min(one.length + GATE, end) for one in runners))


def hold_tournament(draws: Draws, leak: float, gate: float, *, roles: Sequence[str]) -> Ending:
    """Make all attempts at once; a judge chooses among those that pass."""
    entrants = _taken(draws, roles)
    passed = [one for one in entrants if one.passes(leak)]
    end = max(one.length for one in entrants) + GATE
    cost = sum(one.price * one.length + gate for one in entrants) + gate * (len(passed) if len(passed) > 1 else 0)
    if any(one.right for one in passed) and entrants[0].luck < JUDGE:
        passed = [one for one in passed if one.right]
    chosen = passed[int(entrants[1].luck * len(passed))] if passed else None
    return Ending(landed=_landed(chosen), cost=cost, slots=(end,) * len(entrants))


Policy = Callable[[Draws, float, float], Ending]
POLICIES: dict[str, Policy] = {
    "cheap once": partial(climb, roles=("cheap",)),
    "strong once": partial(climb, roles=("strong",)),
    "cheap twice": partial(climb, roles=("cheap", "cheap")),
    "strong twice (`attempts: 2`, the default)": partial(climb, roles=("strong", "strong")),
    "ladder cheap, strong, no more evidence": partial(climb, roles=("cheap", "strong")),
    "ladder cheap, strong": partial(climb, roles=("cheap", "strong"), evidence=True),
    "ladder strong, other (recommended)": partial(climb, roles=("strong", "other"), evidence=True),
    "ladder cheap, strong, other, no more evidence": partial(climb, roles=("cheap", "strong", "other")),
    "ladder cheap, strong, other": partial(climb, roles=("cheap", "strong", "other"), evidence=True),
    "race strong, other": partial(race, roles=("strong", "other")),
    "tournament strong x 3": partial(hold_tournament, roles=("strong", "strong", "strong")),
    "tournament cheap, strong, other": partial(hold_tournament, roles=("cheap", "strong", "other")),
}
REPEATING = [name for name in POLICIES if "twice" in name or "x 3" in name]
ONCE = "strong once"


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Right and wrong landings of 100 tasks, the cost of a right one in cheap attempts, the makespan in attempts."""

    right: float
    wrong: float
    cost: float
    makespan: float

    def beats(self, other: "Figures", *, time: bool) -> bool:
        """Return whether these are as good in everything, and better in something."""
        ours, theirs = ([-each.right, each.wrong, each.cost, each.makespan * time] for each in (self, other))
        return ours != theirs and all(mine <= its for mine, its in zip(ours, theirs, strict=True))


def sum_up(endings: Sequence[Ending]) -> Figures:
    free = [0.0] * SLOTS
    for ending in endings:
        start = max([heapq.heappop(free) for _ in ending.slots])
        for length in ending.slots:
            heapq.heappush(free, start + length)
    right = sum(one.landed == "right" for one in endings)
    scale = 100 / len(endings)
    return Figures(
        right=right * scale,
        wrong=sum(one.landed == "wrong" for one in endings) * scale,
        cost=sum(one.cost for one in endings) / max(right, 1),
        makespan=max(free) * scale,
    )


Round = dict[float, dict[str, Figures]]
"""By leak and policy, the mean figures of all trios."""


def play_round(
    trios: Sequence[Trio], trials: Trials, given: argparse.Namespace, policies: Sequence[str], chance: random.Random
) -> Round:
    prices = dict(zip(("cheap", "strong", "other"), given.prices, strict=True))
    drawn = []
    for trio in trios:
        agents = [trials[trio[role][0]] for role in prices]
        tasks = sorted(set(agents[0]).intersection(*agents[1:]))
        drawn.append(
            [
                draw_task(trio, trials, task, prices, given.leak_by, chance)
                for task in chance.choices(tasks, k=len(tasks))
            ]
        )
    gate = GATE * prices["strong"]
    return {
        leak: {
            name: mean([sum_up([POLICIES[name](draws, leak, gate) for draws in tasks]) for tasks in drawn])
            for name in policies
        }
        for leak in given.leaks
    }


def mean(figures: Sequence[Figures]) -> Figures:
    return Figures(**{name: fmean(getattr(one, name) for one in figures) for name in Figures.__dataclass_fields__})


def _cell(values: list[float], digits: int = 1) -> str:
    values.sort()
    low, high = (values[min(int(len(values) * share), len(values) - 1)] for share in (0.025, 0.975))
    return f"{fmean(values):.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def lines(rounds: Sequence[Round], leak: float) -> Iterator[str]:
    """Yield the rows of one leak, and the policies on the frontier of the means."""
    means = {name: mean([one[leak][name] for one in rounds]) for name in rounds[0][leak]}
    for name, own in means.items():
        every = [one[leak] for one in rounds]
        cells = [
            _cell([getattr(one[name], figure) for one in every]) for figure in ("right", "wrong", "cost", "makespan")
        ]
        gained, lost = own.right - means[ONCE].right, own.wrong - means[ONCE].wrong
        cells.append(f"{gained / lost:.1f}" if gained > 0 and lost > 0.05 else "")
        for time in (False, True):
            free = sum(not any(each.beats(one[name], time=time) for each in one.values()) for one in every)
            cells.append(f"{free / len(rounds):.0%}")
        yield f"| {leak:g} | {name} | {' | '.join(cells)} |"


def frontier(rounds: Sequence[Round], leak: float, *, time: bool) -> str:
    means = {name: mean([one[leak][name] for one in rounds]) for name in rounds[0][leak]}
    free = [name for name, own in means.items() if not any(each.beats(own, time=time) for each in means.values())]
    return "; ".join(free)


def show(data: str, folder: Path, given: argparse.Namespace) -> None:
    trials = read_trials(folder / f"{data}.jsonl")
    trios = [one for one in TRIOS if one.data == data]
    again = all(
        count >= 3 for trio in trios for role in ("cheap", "strong") for _, count in trials[trio[role][0]].values()
    )
    policies = [name for name in POLICIES if again or name not in REPEATING]
    chance = random.Random(f"{given.seed} {data}")
    rounds = [play_round(trios, trials, given, policies, chance) for _ in range(given.rounds)]
    print(f"\n## {data}\n")
    for trio in trios:
        print("- " + ", ".join(f"{role} {trio[role][0].replace('~', ' ')}" for role in ("cheap", "strong", "other")))
    if not again:
        print("- one trial a task: no policy that tries one agent again")
    print("\n| leak | policy | right of 100 | wrong of 100 | cost of a right one | makespan | right per wrong added |"
          " frontier | with time |\n|---:|---|" + "---:|" * 7)  # fmt: skip
    for leak in given.leaks:
        for line in lines(rounds, leak):
            print(line, flush=True)
    print()
    for leak in given.leaks:
        print(f"- leak {leak:g}, frontier of the means: {frontier(rounds, leak, time=False)}")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--data", nargs="+", choices=(TERMINAL, PRO, VERIFIED), default=(TERMINAL, PRO, VERIFIED))
    asked.add_argument("--leaks", type=float, nargs="+", default=(0.0, 0.05, 0.1, 0.2, 0.3))
    asked.add_argument("--leak-by", choices=("attempt", "family", "task"), default="attempt")
    asked.add_argument("--prices", type=float, nargs=3, metavar=("CHEAP", "STRONG", "OTHER"), default=(1.0, 3.0, 3.0))
    asked.add_argument("--rounds", type=int, default=200)
    asked.add_argument("--seed", type=int, default=1)
    given = asked.parse_args()
    print(
        "Assumed: an attempt costs {:g} (cheap), {:g} (strong), {:g} (other)".format(*given.prices)
        + f" times its duration, which is 1 on average (log-normal, spread {SPREAD:g}). The gate and each further"
        f" reviewer cost {GATE:g} strong attempts, and a gate takes {GATE:g}. Two and three families of reviewers leave"
        f" {MISSED[1]:.0%} and {MISSED[2]:.0%} of a leak, and reject nothing that is right. A judge recognizes right"
        f" work in {JUDGE:.0%} of cases. {SLOTS} attempts run at once. Leaks are drawn for each {given.leak_by}."
        f" {given.rounds} rounds, seed {given.seed}."
    )
    for data in given.data:
        show(data, given.folder, given)


if __name__ == "__main__":
    main()
