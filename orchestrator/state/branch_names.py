"""The names by which people know entries: `feature/base`, where refs and journals have `feature--base`. Pure."""

import re

from forgepool.orchestrator.state.run import RunState

_WORD = re.compile(r"(?<![\w./-])[\w-]{1,100}(?![\w/-]|\.\w)", re.ASCII)
"""A word that may be an entry's name; what stands within a path or a ref is none."""


def branch_of(state: RunState, entry: str) -> str:
    known = state.submitted.get(entry) or state.refused.get(entry)
    return known.branch if known is not None and known.branch else entry


def with_branches(state: RunState, text: str) -> str:
    """The text with each entry named as people know it."""
    return _WORD.sub(lambda found: branch_of(state, found[0]), text)
