"""A context driven by the test, call by call, over a real transcript and a real workplace."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forgepool.workers.context.edits.state import ContextState, EditProposal, Moment, Profile
from forgepool.workers.context.profiles.registry import profile
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.context.transcript.entries import Answered, ConversationStarted, Rebuilt, Transcript, TurnSaid
from forgepool.workers.context.view.archive import Archive
from forgepool.workers.context.view.live import Context
from forgepool.workers.llm.messages import Text, ToolCall, Turn, Usage, user
from forgepool.workers.llm.provider import ModelRequest
from forgepool.workers.schema.confinement import OPEN
from forgepool.workers.tools.endings import COMPACT_TOOL
from forgepool.workers.tools.files.text_file import READ_FILE
from forgepool.workers.tools.workplace import Workplace

CARD = "# Task t: mend the clock\n\nAcceptance: `pytest -q`"
LIKE = ModelRequest(system=("Be good.",), tools=(READ_FILE.offer,), turns=())
WITH_COMPACT = ModelRequest(system=("Be good.",), tools=(READ_FILE.offer, COMPACT_TOOL.offer), turns=())


def workplace(folder: Path) -> Workplace:
    (folder / "worktree").mkdir(parents=True, exist_ok=True)
    return Workplace(
        root=folder / "worktree",
        tmp=folder / "tmp",
        env={"PATH": os.environ["PATH"]},
        confined=OPEN,
        stop=lambda: False,
        left_s=lambda: 60.0,
    )


@dataclass(slots=True)
class Stand:
    """
    A profile that proposes what the test says and records the causes. It has the name of the profile that does nothing.
    """

    says: Callable[[ContextState, Moment], EditProposal | None] = lambda state, moment: None
    causes: list[str] = field(default_factory=list)
    name: str = "off"

    def propose(self, state: ContextState, moment: Moment) -> EditProposal | None:
        self.causes.append(moment.cause)
        return self.says(state, moment)


def cutting(state: ContextState, moment: Moment) -> EditProposal:
    """Propose to cut all but the model's last turn and its results."""
    place = max(place for place, turn in enumerate(state.turns) if turn.role == "assistant")
    head = (user(Text(text="[the harness] What was is gone.")),)
    return EditProposal(edit=Edit(cut=place, head=head) if place > 1 else state.edit, why="all that is old goes")


class Alive:
    """One process's part of a conversation; another one with the same folder continues it."""

    def __init__(self, folder: Path, led_by: str | Profile = "ledger", *, place: str = "here", **options: Any) -> None:
        self.workplace = workplace(folder / place)
        self.transcript = Transcript(folder / "t.jsonl")
        if not self.transcript.entries:
            self.transcript.append(ConversationStarted(at=0.0, order_id="r.t.1", model="m", system=(), tools=()))
            self.transcript.append(TurnSaid(at=0.0, turn=user(Text(text=CARD))))
        given = {"like": LIKE, "window_tokens": 200_000} | options
        self.context = Context(
            transcript=self.transcript,
            profile=profile(led_by) if isinstance(led_by, str) else led_by,
            archive=Archive(self.workplace),
            root=str(self.workplace.root),
            **given,
        )

    def __enter__(self) -> "Alive":
        return self

    def __exit__(self, *raised: object) -> None:
        self.transcript.close()

    def call(
        self,
        tool: str = "read_file",
        answer: str = "x" * 400,
        *,
        at: float | None = None,
        stop: str = "calls",
        is_error: bool = False,
        usage: Usage | None = None,
        model: str = "m",
        **arguments: str,
    ) -> Answered:
        """Ask the model, make its one call, and return the result."""
        self.context.prepare()
        number = 1 + sum(turn.role == "assistant" for turn in self.context.view.turns)
        call = ToolCall(id=f"c{number}", name=tool, arguments=arguments or {"path": f"src/f{number}.py"})
        said = {"role": "assistant", "parts": (call,), "stop": stop, "model": model, "usage": usage or Usage()}
        at = time.time() if at is None else at
        self.transcript.append(TurnSaid(at=at, turn=Turn.model_validate(said)))
        self.context.catch_up()
        text, how = self.context.shorten_result(call, answer, is_error=is_error, iteration=number)
        result = {"call_id": call.id, "text": text, "is_error": is_error}
        entry = Answered.model_validate(
            {
                "at": at,
                "iteration": number,
                "seconds": 0.0,
                "result": result,
                "whole": answer if how else "",
                "shortened": how,
            }
        )
        self.transcript.append(entry)
        self.context.catch_up()
        return entry

    @property
    def rebuilds(self) -> list[Rebuilt]:
        return [entry for entry in self.transcript.entries if isinstance(entry, Rebuilt)]

    @property
    def shown(self) -> bytes:
        """Return all that the model would be sent now."""
        request = self.context.request
        turns = b"\n".join(turn.model_dump_json().encode() for turn in request.turns)
        return turns + f"\n{request.lasting_parts} {request.rebuilt}".encode()


def long(number: int, characters: int = 6_000) -> str:
    """Return a unique text that looks like code."""
    line = f"    value_{number} = compute_{number}(argument_{number})\n"
    return f"def part_{number}():\n" + line * (characters // len(line))
