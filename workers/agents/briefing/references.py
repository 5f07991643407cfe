"""Texts that a plan gives to a task's agent: files of the base commit, or lines of them."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from forgepool.workers.agents.briefing.card_sections import CardSection
from forgepool.workers.agents.briefing.task_card import quote_text, read_base_text
from forgepool.workers.schema.globs import parse
from forgepool.worktrees.git.git import CommitId, Git

_LINES = re.compile(r"(?P<path>.+?):(?P<first>\d+)(?:-(?P<last>\d+))?")
_SHORT_CHARACTERS = 4_000
_MOST_READ = 50


class ContextReference(NamedTuple):
    path: str
    lines: tuple[int, int] | None


def split_reference(text: str) -> ContextReference:
    """Split `path:10-40` or `path:10` into its parts."""
    match = _LINES.fullmatch(text)
    if match is None:
        return ContextReference(text, None)
    first = int(match["first"])
    return ContextReference(match["path"], (first, int(match["last"] or first)))


def match_reads(reads: Sequence[str], paths: Iterable[str]) -> list[str]:
    """Return the paths that these globs cover, fifty at most."""
    patterns = [parse(glob) for glob in reads]
    return [path for path in paths if any(pattern.matches(path) for pattern in patterns)][:_MOST_READ]


def write_references(git: Git, base: CommitId, references: Sequence[str]) -> tuple[CardSection, ...]:
    """Return a section of the card for each reference; one to what is not there says so."""
    return tuple(_section(git, base, text, first=not at) for at, text in enumerate(dict.fromkeys(references)))


def _section(git: Git, base: CommitId, reference: str, *, first: bool) -> CardSection:
    text = _find(git, base, split_reference(reference))
    title = f"### {reference}"
    if first:
        title = f"## Context\n\nTexts that the plan gives you, as they are at the base commit.\n\n{title}"
    forms = [f"{title}\n\n{text}"]
    if len(text) > _SHORT_CHARACTERS:
        left_out = f"[{len(text) - _SHORT_CHARACTERS:,} more characters are left out, for want of room]"
        forms.append(f"{title}\n\n{text[:_SHORT_CHARACTERS]}\n{left_out}")
    forms.append(f"{title}\n\n(No room for it here.)")
    return CardSection(name=f"the text of '{reference}'", forms=tuple(forms), rank=1)


def _find(git: Git, base: CommitId, reference: ContextReference) -> str:
    text = read_base_text(git, base, reference.path)
    if not text:
        return "(There is no such text file at the base commit.)"
    if reference.lines is None:
        return quote_text(text)
    first, last = reference.lines
    lines = text.removesuffix("\n").split("\n")
    chosen = lines[max(0, first - 1) : last]
    # Not stripped at its ends, so that the lines are those that were asked for.
    return "\n".join(f"    {line}".rstrip() for line in chosen) or f"(There are no such lines: it has {len(lines)}.)"
