"""
The tools an agent has, by phase and by the family of its model.

The same phase and family give the same tools in the same order, byte for byte, because a provider caches what it is
sent from its first byte on; what all phases and families share therefore comes first.
"""

from collections.abc import Iterable, Sequence

from forgepool.workers.sandbox.run.background import Background
from forgepool.workers.tools.commands.run import BASH, background_tools
from forgepool.workers.tools.files.apply_patch import APPLY_PATCH
from forgepool.workers.tools.files.edit import EDIT_FILE
from forgepool.workers.tools.files.grep import GREP
from forgepool.workers.tools.files.listing import GLOB
from forgepool.workers.tools.files.text_file import READ_FILE, WRITE_FILE
from forgepool.workers.tools.tool import Tool

_SHARED: tuple[Tool, ...] = (READ_FILE, GLOB, GREP)

_PATCHING = "gpt"
"""The family whose models were taught to edit by patch."""


def reading(more: Sequence[Tool] = (), ending: Sequence[Tool] = ()) -> tuple[Tool, ...]:
    """
    To explore with, and change nothing: of `more` (servers' tools), in whatever order, only those that read.

    No bash: what a command writes cannot be foreseen.
    """
    return (*_SHARED, *_sorted(tool for tool in more if tool.kind == "read"), *ending)


def working(
    family: str, background: Background, more: Sequence[Tool] = (), ending: Sequence[Tool] = ()
) -> tuple[Tool, ...]:
    """To do the work with. `family` is that of the model: `gpt`, `claude` and so on."""
    editing = APPLY_PATCH if family == _PATCHING else EDIT_FILE
    return (*_SHARED, WRITE_FILE, BASH, *background_tools(background), editing, *_sorted(more), *ending)


def _sorted(tools: Iterable[Tool]) -> list[Tool]:
    return sorted(tools, key=lambda tool: tool.name)
