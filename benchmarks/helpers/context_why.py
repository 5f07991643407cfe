"""
Shows why removing a little before every call costs more than removing nothing: the same runs, in USD call by call.

`mask` does what many agents do: it leaves one line of each result but the newest ten. It is here to be measured, and is
not one of the product's profiles.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from forgepool.workers.context.edits.masks import find_seen, mask_steps, text_of
from forgepool.workers.context.edits.state import ContextState, EditProposal, Moment
from forgepool.workers.context.profiles.ledger import variant
from forgepool.workers.context.profiles.pace import Pace
from forgepool.workers.context.profiles.registry import Off
from forgepool.workers.context.replay.comparison import ReplayCase, Row
from forgepool.workers.context.replay.cost import ANTHROPIC
from forgepool.workers.context.replay.simulation import ReplayOutcome, ReplayTerms, simulate
from forgepool.workers.context.shorten.new_results import Birth

PLOTTED = {
    "evicting before every call": "#c0392b",
    "nothing removed": "#7f8c8d",
    "ledger": "#1e8449",
}
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 720, 380, 56, 44, 24, 190


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    keep: int = 10

    @property
    def name(self) -> str:
        return "mask"

    def propose(self, state: ContextState, moment: Moment) -> EditProposal | None:
        line = "[earlier output omitted]"
        texts = {deed.step: line for deed in find_seen(state, keep=self.keep) if len(text_of(state, deed)) > len(line)}
        return EditProposal(edit=mask_steps(state, texts), why="old") if texts else None


def show(found: Sequence[ReplayCase], svg: Path | None) -> None:
    terms = ReplayTerms(prices=ANTHROPIC)

    def outcomes(make: type, birth: Birth | None = None, *, cached: bool = True) -> list[ReplayOutcome]:
        return [
            simulate(case.recording, case.needs, make(), terms, birth=birth, messages_cached=cached) for case in found
        ]

    def evicting() -> Pace:
        return Pace(compress=False)

    named = {
        "nothing removed": outcomes(Off),
        "evicting before every call": outcomes(evicting),
        "all but ten results masked": outcomes(Mask),
        "ledger": outcomes(lambda: variant("ledger"), Birth()),
        "nothing removed, no cache": outcomes(Off, cached=False),
        "evicting, no cache": outcomes(evicting, cached=False),
        "masked, no cache": outcomes(Mask, cached=False),
    }
    base = sum(each.bill.cost_usd(ANTHROPIC) for each in named["nothing removed"])
    print("| | USD | against append-only, % | tokens a call | written, ktok | cached, ktok | rebuilds |")
    print("|:---|---:|---:|---:|---:|---:|---:|")
    for name, each in named.items():
        row = Row(name=name, outcomes=each, terms=terms, append_usd=base)
        print(
            f"| {name} | {row.cost_usd:.2f} | {row.against(row.cost_usd):+.1f} | {row.bill.mean:,.0f} | "
            f"{row.bill.written / 1000:,.0f} | {row.bill.cached / 1000:,.0f} | {row.columns['rebuilds']} |"
        )
    if svg is not None:
        lines = {name: summed(named[name]) for name in PLOTTED}
        svg.write_text(drawn(lines, len(found)))


def summed(outcomes: Sequence[ReplayOutcome]) -> list[float]:
    """Return the USD of all runs together after each number of calls; a run that has ended costs no more."""
    calls = max(len(each.spent_usd) for each in outcomes)
    return [sum(each.spent_usd[min(call, len(each.spent_usd) - 1)] for each in outcomes) for call in range(calls)]


def drawn(lines: dict[str, list[float]], runs: int) -> str:
    most_calls, most_usd = max(map(len, lines.values())), max(line[-1] for line in lines.values()) * 1.05
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def at(call: float, usd: float) -> tuple[float, float]:
        return _LEFT + width * call / most_calls, _TOP + height * (1 - usd / most_usd)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        'font-family="sans-serif" font-size="12">',
        f"<title>Cost of {runs} recorded runs after so many calls of each</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
    ]
    for usd in range(0, int(most_usd) + 1, 5):
        x, y = at(0, usd)
        parts.append(f'<line x1="{x:.0f}" x2="{_LEFT + width}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{x - 8:.0f}" y="{y + 4:.1f}" text-anchor="end" fill="#444">{usd}</text>')
    for call in range(0, most_calls + 1, 20):
        x, y = at(call, 0)
        parts.append(f'<text x="{x:.1f}" y="{y + 18:.0f}" text-anchor="middle" fill="#444">{call}</text>')
    for name, line in lines.items():
        points = " ".join("{:.1f},{:.1f}".format(*at(call + 1, usd)) for call, usd in enumerate(line))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{PLOTTED[name]}" stroke-width="2"/>')
        x, y = at(len(line), line[-1])
        parts.append(f'<text x="{x + 6:.1f}" y="{y + 4:.1f}" fill="{PLOTTED[name]}">{name}</text>')
        parts.append(f'<text x="{x + 6:.1f}" y="{y + 18:.1f}" fill="{PLOTTED[name]}">USD {line[-1]:.2f}</text>')
    parts.append(f'<text x="{_LEFT + width / 2:.0f}" y="{_HEIGHT - 8}" text-anchor="middle">calls of each run</text>')
    parts.append(f'<text x="{_LEFT - 40}" y="14">USD, {runs} runs together</text></svg>')
    return "\n".join(parts) + "\n"
