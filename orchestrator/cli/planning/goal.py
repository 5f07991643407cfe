"""A person's goal, and the requirements that a specification adds to it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from forgepool.orchestrator.plan.validation.facts import Requirement
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.schema.documents import read_text

_MOST_CHARACTERS = 60_000
_MOST_REQUIREMENTS = 100
_FENCE = re.compile(r" {0,3}(```|~~~)")
_ITEM = re.compile(r"(?P<indent>\s*)(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?(?P<text>\S.*)")
_NUMBERED_HEADING = re.compile(r"#{1,6}\s+(?P<text>\d+(?:\.\d+)*[.)]?\s+\S.*)")
_MUST = re.compile(r"\b(?:must|shall)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    words: str
    requirements: dict[str, str]
    """The text of each requirement, by its id: R1, R2 and so on."""
    specification: str = ""
    """The whole text of the file that the requirements come from."""

    @property
    def title(self) -> str:
        """Return the goal on one line."""
        return " ".join(self.words.split())

    def requirements_met(self, covers: Mapping[str, tuple[str, ...]]) -> list[Requirement]:
        return [Requirement(id=one, text=text, tasks=covers.get(one, ())) for one, text in self.requirements.items()]


def read_goal(words: str, specification: Path | None) -> Goal:
    """
    Return the goal with its requirements; without a specification that names some, the goal is the only one.

    Raises:
        CannotRun: the goal is empty, or the specification is too long.
        DocumentWrong: the specification cannot be read.
    """
    if not words.strip():
        raise CannotRun("the goal is empty; say in a sentence what is to be done")
    text = "" if specification is None else read_text(specification, str(specification))
    if len(text) > _MOST_CHARACTERS:
        raise CannotRun(f"{specification} has more than {_MOST_CHARACTERS:,} characters; plan it in parts")
    found = list(_requirements(text)) or [" ".join(words.split())]
    if len(found) > _MOST_REQUIREMENTS:
        raise CannotRun(f"{specification} has {len(found)} requirements; plan at most {_MOST_REQUIREMENTS} at once")
    return Goal(
        words=words.strip(),
        requirements={f"R{number}": one for number, one in enumerate(found, start=1)},
        specification=text,
    )


def _requirements(text: str) -> Iterator[str]:
    """
    Yield the list items, numbered headings and lines with "must" or "shall", in their order.

    Lines that go on an item belong to it; code does not count.
    """
    parts: list[str] = []
    indent = 0
    for line in _without_code(text):
        item = _ITEM.fullmatch(line)
        if parts and not item and line.strip() and len(line) - len(line.lstrip()) > indent:
            parts.append(line.strip())
            continue
        if parts:
            yield " ".join(parts)
        parts = [item["text"].strip()] if item else []
        indent = len(item["indent"]) if item else 0
        if not item:
            heading = _NUMBERED_HEADING.fullmatch(line)
            if heading or (_MUST.search(line) and not line.startswith("#")):
                yield heading["text"].strip() if heading else line.strip()
    if parts:
        yield " ".join(parts)


def _without_code(text: str) -> Iterator[str]:
    fence = ""
    for line in text.splitlines():
        if found := _FENCE.match(line):
            fence = "" if fence == found[1] else fence or found[1]
        elif not fence:
            yield line
