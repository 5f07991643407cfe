"""
Does a rule bear on a thing, and how much does it say of it? One function for each kind of thing that is judged.

A rule that names commands is a match for what a command does; one with paths for each file that is read or written;
one that names tools alone for all that these tools do, at the lowest rank.
"""

import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from forgepool.workers.policy.layers import Match, Rank
from forgepool.workers.policy.rules.command import Likeness, ProgramCall
from forgepool.workers.policy.rules.host import HostPattern
from forgepool.workers.policy.rules.place import UNKNOWN, ResolvedPath
from forgepool.workers.policy.rules.rule import READERS, SHELLS, WRITERS, PolicyRule

Access = Literal["read", "write"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """A file or folder that a tool reads or writes; for the shell's, the command that does, if one does."""

    access: Access
    place: ResolvedPath
    call: ProgramCall | None = None
    by_operand: bool = False
    """It is a word of a command: whether the command may run at all is judged besides."""


def on_tool(rules: Sequence[PolicyRule], tool: str) -> Iterator[Match]:
    """A tool as such."""
    for rule in rules:
        if rule.subject == "tools" and _names(rule, tool):
            yield Match(rule=rule, rank=_rank(rule))


def on_touch(rules: Sequence[PolicyRule], tool: str, touch: Touch) -> Iterator[Match]:
    for rule in rules:
        if rule.subject == "tools":
            if not touch.by_operand and _names(rule, tool):
                yield Match(rule=rule, rank=_rank(rule))
        elif rule.subject == "files" and _reaches(rule, tool, touch.access):
            yield from _on_place(rule, touch)


def _on_place(rule: PolicyRule, touch: Touch) -> Iterator[Match]:
    sure, rank = _fitting(rule, touch.place)
    if rank is None:
        return
    likeness: Likeness = "yes" if sure else "maybe"
    if rule.commands is None:
        yield Match(rule=rule, rank=_rank(rule, path=rank), likeness=likeness)
    elif touch.call is not None:
        for found, length in _on_commands(rule, touch.call):
            both = likeness if found == "yes" else found
            yield Match(rule=rule, rank=_rank(rule, command=length, path=rank), likeness=both)


def _fitting(rule: PolicyRule, place: ResolvedPath) -> tuple[bool, tuple[int, int] | None]:
    """Whether it fits for sure, and its rank if it may. A path that cannot be known may be any that is denied."""
    patterns = rule.paths or ()
    if not place.is_known:
        if any(pattern.text == UNKNOWN for pattern in patterns):
            return True, (2, 0)
        return False, max((each.rank for each in patterns), default=None) if rule.decision == "deny" else None
    fits = [each.rank for each in patterns if (each.restrains(place) if rule.restrains else each.permits(place))]
    return True, max(fits, default=None)


def on_call(rules: Sequence[PolicyRule], tool: str, call: ProgramCall, *, by_name_alone: bool) -> Iterator[Match]:
    """A command. `by_name_alone`: only rules that name its program, because what it runs is judged besides."""
    for rule in rules:
        if rule.subject == "tools":
            if not by_name_alone and _names(rule, tool):
                yield Match(rule=rule, rank=_rank(rule))
        elif rule.subject == "commands" and _names(rule, tool):
            for likeness, length in _on_commands(rule, call):
                yield Match(rule=rule, rank=_rank(rule, command=length), likeness=likeness)


def _on_commands(rule: PolicyRule, call: ProgramCall) -> Iterator[tuple[Likeness, int]]:
    for pattern in rule.commands or ():
        if rule.restrains:
            likeness = pattern.amounts(call)
            if likeness != "no":
                yield likeness, pattern.rank
        elif pattern.begins(call) and (rule.decision == "audit" or call.is_static):
            yield "yes", pattern.rank


def on_variable(rules: Sequence[PolicyRule], tool: str, name: str, *, by_name_alone: bool = False) -> Iterator[Match]:
    for rule in rules:
        if rule.subject == "tools":
            if not by_name_alone and _names(rule, tool):
                yield Match(rule=rule, rank=_rank(rule))
        elif rule.subject == "variables" and _names(rule, tool):
            fits = [len(each.replace("*", "")) for each in rule.variables or () if fnmatch.fnmatchcase(name, each)]
            if fits:
                yield Match(rule=rule, rank=_rank(rule, command=1, path=(0, max(fits))))


def on_host(rules: Sequence[PolicyRule], host: HostPattern) -> Iterator[Match]:
    """A host, or all hosts of a pattern: what restrains one of them restrains all."""
    for rule in rules:
        ranks = [each.rank for each in rule.hosts or () if (each.meets(host) if rule.restrains else each.covers(host))]
        if ranks:
            yield Match(rule=rule, rank=max(ranks))


def _names(rule: PolicyRule, tool: str) -> bool:
    if rule.tools is None:
        return True
    own = (tool, "bash") if tool in SHELLS else (tool,)
    return any(fnmatch.fnmatchcase(each, name) for name in rule.tools for each in own)


def _reaches(rule: PolicyRule, tool: str, access: Access) -> bool:
    """What is said of files for one tool that writes holds for all that write, the shell's commands too."""
    if rule.tools is None:
        return True
    family = WRITERS if access == "write" else READERS
    if tool not in SHELLS and tool not in family:
        return _names(rule, tool)
    return any(name in family for name in rule.tools) or _names(rule, tool)


def _rank(rule: PolicyRule, *, command: int = 0, path: tuple[int, int] = (-1, 0)) -> Rank:
    """How specific: by its command, its path, and whether it names its tool and its phase."""
    return (command, *path, 0 if rule.tools is None or "*" in rule.tools else 1, 0 if rule.phase is None else 1)


def may_permit(rule: PolicyRule, tool: str) -> bool:
    """Whether a rule lets some of a tool's calls through, though not all."""
    return (
        not rule.restrains and rule.subject in ("files", "commands") and rule.tools is not None and _names(rule, tool)
    )
