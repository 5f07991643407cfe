"""
One recorded conversation, in the form all readers give.
"""

import re
from dataclasses import dataclass
from typing import Literal

from forgepool.workers.llm.messages import Turn
from forgepool.worktrees.errors import UserError

Format = Literal["own", "normal", "claude-code", "mini-swe-agent", "swe-agent"]

_INSTANCE = re.compile(r"(?P<project>[^/]+__[^/]+?)-\d+(?:\.[^/]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    name: str
    """The file's, without folders; with `#2`, `#3` or `#side1` where it holds several conversations."""
    format: Format
    project: str
    """The repository worked on, as far as it can be told; else after the file's name."""
    system: str
    """The system prompt; empty where it was not recorded."""
    turns: tuple[Turn, ...]
    """
    Sides alternate; the first is the user's and begins with the task. Call ids are unique, and each call has its one
    result in the turn after it. At least one turn is the model's. `usage` is zero, and its cost None, where the
    recording has none.
    """
    times: tuple[float | None, ...]
    """Unix seconds by turn, when it was complete; None where that was not recorded."""


class BadRecording(UserError):
    """A file that holds no recording that can be read; the text is one sentence for the user."""


def project_named(*names: str) -> str:
    """
    The repository of the first of `names` that ends in an instance of a benchmark: of `x/django__django-11138.json`,
    `django__django`. Else the last name up to its first dot.
    """
    for name in names:
        if found := _INSTANCE.fullmatch(name.rpartition("/")[2]):
            return found["project"]
    return names[-1].partition(".")[0] or names[-1]


def number_name(name: str, number: int) -> str:
    """The name of a file's conversation by its number, from 0."""
    return name if number == 0 else f"{name}#{number + 1}"
