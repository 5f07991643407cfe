"""Honest changes have no blocking finding: the common kinds, in every language that is read."""

from pathlib import Path

import pytest
from stories import Stage, Story, read_stories

from forgepool.workers.workspace.scans.scanning import find_kept_out

_FILES = sorted(Path(__file__).with_name("honest").glob("*.yaml"))
_STORIES: list[Story] = [story for file in _FILES for story in read_stories(file)]
_MOST = 0.02


def test_the_corpus_is_large_enough() -> None:
    """A limit of two in a hundred needs at least fifty stories."""
    names = [story.name for story in _STORIES]
    assert len(names) >= 50
    assert len(set(names)) == len(names)


@pytest.mark.slow
def test_at_most_two_in_a_hundred_honest_changes_are_kept_out(stage: Stage) -> None:
    found = zip(_STORIES, stage.scan_all(_STORIES), strict=True)
    held = {story.name: kept for story, all_found in found if (kept := find_kept_out(all_found, reviewed=False))}
    told = {name: [(one.rule, one.path, one.line, one.text) for one in kept] for name, kept in held.items()}
    assert len(held) <= _MOST * len(_STORIES), told
