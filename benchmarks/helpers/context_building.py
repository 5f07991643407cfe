"""
Times the step from the model's answer to its next view, in milliseconds.

The turn and its results are folded in, and the profile is asked. Its proposal is judged and put in force, and the view
is built.

The conversation is made up: reads, searches, edits, commands and tests over forty files, results of 100 to 8,000
characters. The time of the stand-in for a summarising model is left out.
"""

import random
import statistics
import time
from dataclasses import dataclass, field

from forgepool.workers.context.edits.state import Moment, Profile, SummaryQuestion, SummaryReply
from forgepool.workers.context.profiles import registry
from forgepool.workers.context.replay.simulation import summary
from forgepool.workers.context.shorten.new_results import Births, Entering
from forgepool.workers.context.transcript.calls import read_tool_call
from forgepool.workers.context.transcript.usage import Gauge
from forgepool.workers.context.view.view import ContextView, find_shown_from
from forgepool.workers.llm.messages import Text, ToolCall, ToolResult, Turn, user

FILES = 40


def conversation(calls: int) -> list[Turn]:
    """Return the model's turns, with one call each, and the results after them."""
    chance, turns = random.Random(5), [user(Text(text="Make the sessions expire.\n" * 40))]
    for number in range(calls):
        path = f"src/area{chance.randrange(5)}/file{chance.randrange(FILES)}.py"
        lines = "".join(
            f"{at:6}\tdef function_{chance.randrange(900)}(value): return value + {at}\n" for at in range(1, 80)
        )
        kind = number % 5
        call, text = [
            (("read_file", {"path": path}), lines[: chance.randrange(500, 8_000)]),
            (("grep", {"pattern": f"function_{number}"}), lines[: chance.randrange(100, 1_500)]),
            (
                ("edit_file", {"path": path, "old": f"value + {number}", "new": f"value - {number}"}),
                f"OK: edited {path}",
            ),
            (
                ("bash", {"command": f"git diff --stat && ls src/area{number % 5}"}),
                lines[: chance.randrange(100, 2_000)],
            ),
            (("bash", {"command": "pytest -q tests"}), f"[exit status {number % 2}, 0.9 s]\n{lines[:3_000]}"),
        ][kind]
        said = Text(text=f"Step {number}: I look at {path} next, since the failing test names it. " * 2)
        made = ToolCall(id=f"c{number}", name=call[0], arguments=call[1])
        turns.append(Turn(role="assistant", parts=(said, made)))
        turns.append(user(ToolResult(call_id=made.id, text=text)))
    return turns


@dataclass(slots=True, kw_only=True)
class Lead:
    profile: Profile
    births: Births | None
    view: ContextView = field(
        default_factory=lambda: ContextView(gauge=Gauge(window_tokens=200_000, fixed_characters=10_000))
    )
    asked_s: float = 0.0
    fired: set[str] = field(default_factory=set)

    def take(self, turn: Turn) -> None:
        for result in turn.results:
            before = len(self.view.deeds)
            self.view.answer(result.model_copy(update={"text": self.born(result)}), result.text)
            if self.births is not None and len(self.view.deeds) > before:
                self.births.take(self.view.deeds[-1])

    def born(self, result: ToolResult) -> str:
        if self.births is None:
            return result.text
        (call,) = self.view.turns[-1].calls
        told = read_tool_call(call)
        entering = Entering(
            call=call,
            text=result.text,
            action=told.action,
            reads=told.reads,
            writes=told.writes,
            shown_from=find_shown_from(self.view.edit, self.view.deeds),
            spill=lambda text: "/tmp/outputs/result.txt",
        )
        return self.births.shorten_result(entering).text

    def ask(self, question: SummaryQuestion) -> SummaryReply:
        began = time.perf_counter()
        reply = summary(question, self.view.turns, self.view.deeds)
        self.asked_s += time.perf_counter() - began
        return reply

    def next_view(self) -> None:
        moment = Moment(cause="call", ask=self.ask, fired=frozenset(self.fired))
        proposal = self.view.propose(self.profile, moment)
        if isinstance(proposal, str):
            raise SystemExit(proposal)
        if proposal is not None:
            self.fired |= {proposal.once} - {""}
            if proposal.edit != self.view.edit:
                self.view.use(proposal.edit)
        _ = self.view.shown


def times_ms(name: str, turns: list[Turn]) -> tuple[list[float], int]:
    """Return the milliseconds of each view, and how often the view was rebuilt."""
    entry = registry.find_profile(name)
    lead = Lead(profile=entry.make(), births=Births(entry.birth) if entry.birth else None)
    lead.view.say(turns[0])
    found = []
    for said, answer in zip(turns[1::2], turns[2::2], strict=True):
        began, before = time.perf_counter(), lead.asked_s
        lead.view.say(said)
        lead.take(answer)
        lead.next_view()
        found.append(1000 * (time.perf_counter() - began - (lead.asked_s - before)))
    return found, lead.view.rebuilds


def show(sizes: list[int]) -> None:
    heads = [f"{calls:,} calls: mean | p99 | most | rebuilds" for calls in sizes]
    print("ms a view\n\n| profile | " + " | ".join(heads) + " |")
    print("|:---|" + "---:|" * (4 * len(sizes)))
    talks = [conversation(calls) for calls in sizes]
    times_ms("off", talks[0])
    for name in ("off", *(each for each in registry.names() if each != "off")):
        cells = []
        for talk in talks:
            found, rebuilds = times_ms(name, talk)
            late = sorted(found)[int(len(found) * 0.99)]
            cells.append(f"{statistics.fmean(found):.2f} | {late:.1f} | {max(found):.1f} | {rebuilds}")
        print(f"| {'off (append-only)' if name == 'off' else name} | {' | '.join(cells)} |", flush=True)
