"""
The five sections of a summary: how they are asked for, read, and set right by what the harness knows.
"""

import re
from dataclasses import dataclass

from forgepool.workers.context.edits.facts import files
from forgepool.workers.context.edits.masks import HARNESS, before
from forgepool.workers.context.edits.state import ContextState
from forgepool.workers.context.profiles.shared.prose import OVERRIDES, honest, list_endings, words

_MEANINGS = {
    "Task": "what the person asked for, with every condition that was set",
    "Decisions": "what was chosen, and why",
    "State": "what is done, what is under way, what is left to do",
    "Files": "the path of every file that was read, created or changed",
    "Context": "names, preferences, findings and other details that the work still needs",
}
_HEADING = re.compile(
    rf"^ {{0,3}}#{{1,6}}[ \t]*\**({'|'.join(_MEANINGS)})\**:?\**[ \t]*$", re.MULTILINE | re.IGNORECASE
)
_WORD = re.compile(r"\w")
_LABEL = (
    f"{HARNESS} State of the work. A model wrote this summary of what came before this point; its files, and what "
    "follows its last section, are what the harness saw."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sections:
    task: str
    decisions: str
    state: str
    files: str
    context: str

    @property
    def used(self) -> str:
        """All that is taken of the model's answer."""
        return "\n".join((self.task, self.decisions, self.state, self.context))

    def render_sections(self, state: ContextState, place: int) -> str:
        """For the conversation's head, in place of what came before a turn. The model's list of files is not used."""
        deeds = state.deeds[: before(state, place)]
        claimed = map(honest, (self.task, self.decisions, self.state, self.context))
        bodies = [*claimed]
        bodies.insert(len(bodies) - 1, files(deeds))
        told = [f"## {heading}\n{body}" for heading, body in zip(_MEANINGS, bodies, strict=True)]
        planned = ["A plan was committed."] if state.plan else []
        if known := [*planned, *list_endings(state, place), *words(state, place)]:
            told.append("\n".join([OVERRIDES, *known]))
        if state.archive:
            told.append(f"The whole results of what was dropped are in {state.archive}.")
        return "\n\n".join([_LABEL, *told])


def instruction(more: str) -> str:
    added = f"\n\n{more}" if more else ""
    meanings = "\n".join(f"## {heading}\n({meaning})" for heading, meaning in _MEANINGS.items())
    return (
        "An agent will go on with the work below without seeing it again. Sum it up for that agent, in the third "
        "person and in the past tense. Use exactly these five headings, each once and on a line of its own; write "
        f"under every one of them, however little there is to say, and write nothing else:\n\n{meanings}{added}"
    )


def sections(text: str) -> Sections | str:
    """The five of them; or what is wrong, as what follows "the summary"."""
    pieces = _HEADING.split(text)
    found = {name.lower(): body.strip() for name, body in zip(pieces[1::2], pieces[2::2], strict=True)}
    if len(pieces) > 1 + 2 * len(found):
        return "it has a heading twice"
    for heading in _MEANINGS:
        if not _WORD.search(found.get(heading.lower(), "")):
            return f"its section '{heading}' is missing or empty"
    return Sections(**found)
