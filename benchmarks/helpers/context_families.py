"""
Tunes families of profiles on an equal footing.

Settings are chosen on half of the projects and scored on the other half, both ways. The chosen setting is the cheapest
with refetching among those that hit no more steps than a cap. Doing nothing is one of each family's settings. Some
families have thresholds that are shares of the window; these are tuned by the window.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product

from forgepool.workers.context.edits.state import Profile
from forgepool.workers.context.profiles.comparators import Clear, Compact, Condenser
from forgepool.workers.context.profiles.forge import ForgeProfile
from forgepool.workers.context.profiles.ghost import Ghost
from forgepool.workers.context.profiles.ledger import LedgerProfile
from forgepool.workers.context.profiles.pace import Pace
from forgepool.workers.context.profiles.registry import Off
from forgepool.workers.context.profiles.soulforge import SoulforgeV1, SoulforgeV2
from forgepool.workers.context.replay.comparison import ReplayCase
from forgepool.workers.context.replay.cost import ANTHROPIC
from forgepool.workers.context.replay.simulation import WINDOW_TOKENS, ReplayOutcome, ReplayTerms, simulate
from forgepool.workers.context.shorten.new_results import Birth

CAPS = (2.0, 3.5, 6.0, 9.0)
TRIGGERS = (8_000, 12_000, 16_000, 24_000, 32_000, 48_000)
NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    make: Callable[[], Profile]
    window: int = WINDOW_TOKENS
    birth: Birth | None = None


def families(*, births: bool) -> dict[str, list[Setting]]:
    own = {"ledger": list(ledgers())}
    others = {
        "soulforge-v2": triggered(SoulforgeV2, "keep_recent", (4, 8, 16)),
        "soulforge-v1": triggered(SoulforgeV1, "keep_recent", (4, 8, 16)),
        "compact": triggered(Compact, "keep_turns", (4, 8, 16)),
        "condenser": [
            Setting(f"{items} items, first {first}", lambda i=items, f=first: Condenser(max_items=i, keep_first=f))
            for items, first in product((40, 60, 80, 120, 160), (1, 3))
        ],
        "ghost": [
            Setting(f"window {window}, keep {keep}", lambda k=keep: Ghost(keep=k), window)
            for window, keep in product((12_000, 16_000, 24_000, 32_000, 48_000, 64_000), (2, 4, 8))
        ],
        "clear": [
            Setting(
                f"over {over}, keep {keep}, at least {least}",
                lambda o=over, k=keep, least=least: Clear(trigger_tokens=o, keep=k, at_least_tokens=least),
            )
            for over, keep, least in product(TRIGGERS, (3, 6, 12), (4_000, 10_000))
        ],
        "pace": [
            Setting(f"over {over}, compress {asks}", lambda o=over, a=asks: Pace(batch_tokens=o, compress=a))
            for over, asks in product((None, 10_000, 20_000, 30_000, 40_000), (False, True))
        ],
        "forge": [
            Setting(f"window {window}, keep {keep}", lambda k=keep: ForgeProfile(keep=k), window)
            for window, keep in product((12_000, 16_000, 24_000, 32_000, 48_000, 64_000), (3, 5, 10))
        ],
    }
    if births:
        others = {name: [replace(each, birth=Birth()) for each in found] for name, found in others.items()}
    return own | others


def ledgers() -> Iterator[Setting]:
    for lost, first in product((0.02, 0.045, 0.08, 0.13, 0.3, 1.0), (1, 3, 5)):
        yield Setting(
            f"most lost {lost}, first {first}",
            lambda lost=lost, first=first: LedgerProfile(most_lost=lost, first=first),
            birth=Birth(),
        )


def triggered(make: Callable[..., Profile], keeps: str, values: Sequence[int]) -> list[Setting]:
    return [
        Setting(f"over {over}, keep {keep}", lambda o=over, k=keep: make(trigger_tokens=o, **{keeps: k}))
        for over, keep in product(TRIGGERS, values)
    ]


@dataclass(slots=True)
class Score:
    """Costs in USD and counts of steps, summed over recordings."""

    cost: float = 0.0
    refetch: float = 0.0
    hit: int = 0
    calls: int = 0

    def add(self, outcome: ReplayOutcome) -> None:
        self.cost += outcome.bill.cost_usd(ANTHROPIC)
        self.refetch += outcome.refetch_usd
        self.hit += outcome.calls_hit
        self.calls += outcome.calls_with_needs

    @property
    def hit_pct(self) -> float:
        return 100 * self.hit / self.calls if self.calls else 0.0


def scored(outcomes: Sequence[ReplayOutcome], places: Sequence[int], into: Score | None = None) -> Score:
    score = into or Score()
    for place in places:
        score.add(outcomes[place])
    return score


def run(found: Sequence[ReplayCase], setting: Setting) -> list[ReplayOutcome]:
    terms = ReplayTerms(prices=ANTHROPIC, window_tokens=setting.window)
    return [simulate(case.recording, case.needs, setting.make(), terms, birth=setting.birth) for case in found]


_cases: Sequence[ReplayCase] = ()
_grids: dict[str, list[Setting]] = {}


def _one(family: str, number: int) -> list[ReplayOutcome]:
    """Run one setting in a forked process, which already has the recordings and the settings."""
    return run(_cases, _grids[family][number])


def halves(found: Sequence[ReplayCase], costs: Sequence[float]) -> tuple[list[int], list[int]]:
    """Split the recordings into two halves by whole projects: the dearest goes first, each to the cheaper half."""
    projects: dict[str, list[int]] = defaultdict(list)
    for place, case in enumerate(found):
        projects[case.recording.project].append(place)
    sides: tuple[list[int], list[int]] = ([], [])
    for places in sorted(projects.values(), key=lambda places: -sum(costs[place] for place in places)):
        min(sides, key=lambda side: sum(costs[place] for place in side)).extend(places)
    return sides


def show(found: Sequence[ReplayCase], *, births: bool) -> None:
    global _cases, _grids
    _cases, _grids = found, families(births=births)
    nothing = run(found, Setting(NOTHING, Off))
    sides = halves(found, [outcome.bill.cost_usd(ANTHROPIC) for outcome in nothing])
    if not all(sides):
        raise SystemExit("recordings of two projects at least are needed to hold one half out")
    for side in sides:
        print(f"half: {len(side)} recordings of {', '.join(sorted({found[each].recording.project for each in side}))}")
    chosen: dict[str, list[str]] = {}
    best: dict[str, list[str]] = {}
    print()
    _head(f"held out: family (settings){', all with births' if births else ''}")
    with ProcessPoolExecutor() as pool:
        for family, settings in _grids.items():
            outcomes = dict(enumerate(pool.map(_one, [family] * len(settings), range(len(settings)))))
            names = {number: setting.name for number, setting in enumerate(settings)}
            outcomes[-1], names[-1] = nothing, NOTHING
            cells = []
            for cap in CAPS:
                cell, picked = held_out(outcomes, nothing, sides, cap)
                cells.append(cell)
                chosen.setdefault(family, []).append(f"cap {cap:g}%: {'; '.join(names[each] for each in picked)}")
            best[family] = [in_sample(outcomes, nothing, cap) for cap in CAPS]
            print(f"| {family} ({len(settings)}) | {' | '.join(cells)} |", flush=True)
    print()
    _head("in sample: the best setting on all recordings")
    for family, cells in best.items():
        print(f"| {family} | {' | '.join(cells)} |")
    print("\ncost against append-only / with refetching / steps hit, in percent. Chosen for each half, on the other:")
    for family, picks in chosen.items():
        print(f"{family}: {'. '.join(picks)}")


def _head(first: str) -> None:
    print(f"| {first} | {' | '.join(f'cap {cap:g}%' for cap in CAPS)} |")
    print("|:---|" + ":---|" * len(CAPS))


def in_sample(outcomes: dict[int, list[ReplayOutcome]], nothing: Sequence[ReplayOutcome], cap: float) -> str:
    places = range(len(nothing))
    scores = [score for each in outcomes.values() if (score := scored(each, places)).hit_pct <= cap]
    return told(min(scores, key=lambda score: score.cost + score.refetch), scored(nothing, places))


def told(score: Score, base: Score) -> str:
    cost, refetch = score.cost / base.cost - 1, (score.cost + score.refetch) / base.cost - 1
    return f"{100 * cost:+.1f} / {100 * refetch:+.1f} / {score.hit_pct:.1f}"


def held_out(
    outcomes: dict[int, list[ReplayOutcome]],
    nothing: Sequence[ReplayOutcome],
    sides: tuple[list[int], list[int]],
    cap: float,
) -> tuple[str, list[int]]:
    total, base, picked = Score(), Score(), []
    for tuned, tried in (sides, sides[::-1]):
        scores = {number: scored(each, tuned) for number, each in outcomes.items()}
        fitting = [number for number, score in scores.items() if score.hit_pct <= cap]
        best = min(fitting, key=lambda number: scores[number].cost + scores[number].refetch)
        picked.append(best)
        scored(outcomes[best], tried, total)
        scored(nothing, tried, base)
    return told(total, base), picked
