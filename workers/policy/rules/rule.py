"""
A rule of a policy, as it is matched: on what it bears, what it decides, and why.

Values only. How a rule is written is in `document`, which of several decides in `layers`.
"""

from dataclasses import dataclass
from typing import Literal

from forgepool.workers.policy.rules.command import CommandPattern
from forgepool.workers.policy.rules.host import HostPattern
from forgepool.workers.policy.rules.place import PathPattern
from forgepool.workers.schema.orders import PhaseName
from forgepool.workers.schema.policy_rules import Decision

LayerName = Literal["built-in", "person", "repository", "plan", "phase"]

STRICTNESS: dict[Decision, int] = {"allow": 0, "audit": 1, "prompt": 2, "deny": 3}
SHELLS = frozenset({"bash", "bash_background", "confirm_red_phase"})
"""Tools that run what a shell is given. To a rule all of them are `bash` too."""
WRITERS = frozenset({"write_file", "edit_file", "apply_patch", "rename_symbol"})
READERS = frozenset({"read_file", "grep", "glob", "find_symbol", "find_references", "diagnostics"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule:
    """
    What is None matches anything; what is empty matches nothing.

    A rule with paths is about files and no more, one with commands and paths about the files such commands name.
    """

    layer: LayerName
    id: str
    """By which reports name it: the layer, then its own name or its file and line."""
    decision: Decision
    reason: str = ""
    phase: PhaseName | None = None
    tools: tuple[str, ...] | None = None
    """Names, or globs over names."""
    paths: tuple[PathPattern, ...] | None = None
    commands: tuple[CommandPattern, ...] | None = None
    hosts: tuple[HostPattern, ...] | None = None
    variables: tuple[str, ...] | None = None
    """Globs over the names of variables that a command sets."""

    @property
    def restrains(self) -> bool:
        return self.decision in ("prompt", "deny")

    @property
    def subject(self) -> Literal["tools", "commands", "files", "hosts", "variables"]:
        """What kind of thing it is about. One about tools alone holds for all that they do."""
        if self.hosts is not None:
            return "hosts"
        if self.variables is not None:
            return "variables"
        if self.paths is not None:
            return "files"
        return "tools" if self.commands is None else "commands"


def strictest(first: Decision, second: Decision) -> Decision:
    return first if STRICTNESS[first] >= STRICTNESS[second] else second
