"""
What stands in for a model that is asked for a summary while a recording is replayed: no model is, and nobody pays.

An answer has the form that its question asks for, and a size: 4,500 tokens for prose, which is what summaries of real
sessions had, or what the question allows at the most if that is less; the question's own most for a state, its gaps and
its sections; a hundred words for a brief. It is made of what a good one would hold, paths first, then what the agent
said of its decisions, newest first. So it flatters the profiles that ask: it never leaves out a path, invents nothing,
and never fails.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from forgepool.workers.context.edits.state import SummaryQuestion, SummaryReply
from forgepool.workers.context.history.actions import Deed
from forgepool.workers.context.replay.cost import CHARACTERS_PER_TOKEN
from forgepool.workers.llm.messages import Turn

PROSE_TOKENS = 4_500
_BRIEF_WORDS = 100
_SAID_CHARACTERS = 400
_FILLING = "- Nothing else is known of this part of the work that would matter for going on with it.\n"
_SECTIONS = ("Task", "Decisions", "State", "Files", "Context")


def summary(question: SummaryQuestion, turns: Sequence[Turn], deeds: Sequence[Deed]) -> SummaryReply:
    """Of a conversation so far, and its deeds."""
    room = int(question.max_output_tokens * CHARACTERS_PER_TOKEN)
    match question.kind:
        case "prose":
            text = _filled(_told(turns, deeds), min(room, int(PROSE_TOKENS * CHARACTERS_PER_TOKEN)))
        case "gaps":
            text = _filled(_said(turns), room)
        case "sections":
            text = _sectioned(turns, deeds, room)
        case "yaml":
            text = _yaml(question, turns, deeds, room)
        case "brief":
            text = _brief(turns)
    return SummaryReply(text=text)


def _told(turns: Sequence[Turn], deeds: Sequence[Deed]) -> Iterator[str]:
    return chain((f"- {path}\n" for path in _paths(deeds)), _said(turns))


def _paths(deeds: Iterable[Deed]) -> list[str]:
    """What was written, then what was read."""
    done = list(deeds)
    written = dict.fromkeys(write.path for deed in done for write in deed.writes)
    return list(written | dict.fromkeys(read.path for deed in done for read in deed.reads))


def _said(turns: Sequence[Turn]) -> Iterator[str]:
    for turn in reversed(turns):
        if turn.role == "assistant" and (text := _line(turn.text)):
            yield f"- {text}\n"


def _line(text: str) -> str:
    """Its beginning, cut between two words: half a path would be one that there is not."""
    line = " ".join(text.split())
    return line if len(line) <= _SAID_CHARACTERS else line[:_SAID_CHARACTERS].rpartition(" ")[0]


def _filled(lines: Iterable[str], room: int) -> str:
    """As many as there is room for; where they end before that, as much filling as makes up for it."""
    kept: list[str] = []
    for line in lines:
        if len(line) > room:
            break
        room -= len(line)
        kept.append(line)
    return "".join([*kept, _FILLING * (room // len(_FILLING))])


def _sectioned(turns: Sequence[Turn], deeds: Sequence[Deed], room: int) -> str:
    each = room // len(_SECTIONS) - len("## Decisions\n\n")
    bodies = {
        "Decisions": _filled(_said(turns), 2 * each),
        "Files": _filled((f"- {path}\n" for path in _paths(deeds)), each),
        "State": _filled((), each),
    }
    short = "- As the card has it.\n"
    return "\n".join(f"## {heading}\n{bodies.get(heading, short)}" for heading in _SECTIONS)


def _yaml(question: SummaryQuestion, turns: Sequence[Turn], deeds: Sequence[Deed], room: int) -> str:
    """What the harness said it knows is said again."""
    facts = [line for line in question.instruction.splitlines() if line.endswith((": true", ": false"))]
    fixed = [
        *facts,
        "last_test_output: as the harness has it",
        "files_read: []",
        f"files_written: [{', '.join(map(_quoted, _paths(deeds)[:20]))}]",
        "key_decisions:",
    ]
    head = "\n".join(fixed)
    decisions = (f"- {_quoted(line.removeprefix('- ').strip())}\n" for line in _said(turns))
    return f"{head}\n{_filled(decisions, room - len(head)) or '- none'}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _brief(turns: Sequence[Turn]) -> str:
    words = [word.rstrip(".") for word in " ".join(_said(turns)).split()]
    return f"{' '.join(words[:_BRIEF_WORDS])}."
