"""The layers of a policy, the matching of rules, and which rule decides."""

import fnmatch
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from forgepool.workers.policy.command import Likeness, ProgramCall
from forgepool.workers.policy.rule import (
    READERS,
    SHELLS,
    STRICTNESS,
    UNKNOWN,
    WRITERS,
    HostPattern,
    PolicyRule,
    ResolvedPath,
)
from forgepool.workers.schema.orders import PhaseName
from forgepool.workers.schema.policy_rules import Decision
from forgepool.workers.tools.tool import Tool

Rank = tuple[int, ...]
_MOST_KNOWN = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A rule that matches the thing judged."""

    rule: PolicyRule
    rank: Rank
    likeness: Likeness = "yes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision on one thing, and the match that made it, if any."""

    decision: Decision
    match: Match | None = None


Find = Callable[[Sequence[PolicyRule]], Iterable[Match]]
"""Finds the rules of a layer that match one thing."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    built_in: tuple[PolicyRule, ...] = ()
    person: tuple[PolicyRule, ...] = ()
    repository: tuple[PolicyRule, ...] = ()
    plan: tuple[PolicyRule, ...] = ()
    phase: tuple[PolicyRule, ...] = ()
    _about: dict[tuple[str, ...], "Policy"] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def restrains_reading(self) -> bool:
        """Report whether any rule restrains which files a command may read."""
        return any(
            rule.restrains and rule.paths is not None and (rule.tools is None or not READERS.isdisjoint(rule.tools))
            for rule in self.rules
        )

    @cached_property
    def names_hosts(self) -> bool:
        return any(rule.hosts is not None for rule in self.rules)

    @property
    def rules(self) -> tuple[PolicyRule, ...]:
        return tuple(rule for layer in self._layers for rule in layer)

    def during(self, phase: PhaseName) -> "Policy":
        """Return the policy without the rules of other phases."""
        return self._with(lambda layer: tuple(rule for rule in layer if rule.phase in (None, phase)))

    def about(self, call: ProgramCall) -> "Policy":
        """Return the policy for commands of this program, without the rules that name only other programs."""
        if call.names not in self._about:
            if len(self._about) >= _MOST_KNOWN:
                self._about.clear()
            self._about[call.names] = self._with(
                lambda layer: tuple(_about(rule, call) for rule in layer if _may_name(rule, call))
            )
        return self._about[call.names]

    def _with(self, change: Callable[[tuple[PolicyRule, ...]], tuple[PolicyRule, ...]]) -> "Policy":
        built_in, person, repository, plan, phase = map(change, self._layers)
        return Policy(built_in=built_in, person=person, repository=repository, plan=plan, phase=phase)

    @property
    def _layers(self) -> tuple[tuple[PolicyRule, ...], ...]:
        return self.built_in, self.person, self.repository, self.plan, self.phase

    def decide(self, find: Find, *, silent: Decision | None = "prompt") -> Verdict | None:
        """Return the decision on one thing. `silent` is the decision where no rule matches; None returns None."""
        verdict = _lowest(_best(find(self.built_in)), _best(find(self.person)))
        if verdict is None and silent is not None:
            verdict = Verdict(decision=silent)
        verdict = _tightened(verdict, _best(find(self.repository)))
        planned = _best(find(self.plan))
        if verdict is not None and verdict.decision == "prompt" and planned is not None:
            verdict = Verdict(decision=planned.rule.decision, match=planned)
        else:
            verdict = _tightened(verdict, planned)
        return _tightened(verdict, _best(find(self.phase)))


def _may_name(rule: PolicyRule, call: ProgramCall) -> bool:
    return rule.commands is None or any(pattern.names_program(call) for pattern in rule.commands)


def _about(rule: PolicyRule, call: ProgramCall) -> PolicyRule:
    if rule.commands is None:
        return rule
    return replace(rule, commands=tuple(each for each in rule.commands if each.names_program(call)))


def _best(matches: Iterable[Match]) -> Match | None:
    """Return the most specific match; at equal rank the strictest, and of these the first."""
    best: Match | None = None
    for each in matches:
        if best is None or _weight(each) > _weight(best):
            best = each
    return best


def _weight(match: Match) -> tuple[Rank, int]:
    return match.rank, STRICTNESS[match.rule.decision]


def _lowest(built_in: Match | None, person: Match | None) -> Verdict | None:
    if person is None or built_in is None:
        only = person or built_in
        return None if only is None else Verdict(decision=only.rule.decision, match=only)
    lifts = person.rule.restrains and not built_in.rule.restrains
    chosen = built_in if built_in.rank > person.rank and not lifts else person
    return Verdict(decision=chosen.rule.decision, match=chosen)


def _tightened(verdict: Verdict | None, match: Match | None) -> Verdict | None:
    if match is None:
        return verdict
    if verdict is not None and STRICTNESS[match.rule.decision] <= STRICTNESS[verdict.decision]:
        return verdict
    return Verdict(decision=match.rule.decision, match=match)


Access = Literal["read", "write"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """A file or folder that a tool, or a command in the shell, reads or writes."""

    access: Access
    place: ResolvedPath
    call: ProgramCall | None = None
    by_operand: bool = False
    """The path is a word of a command, which is judged separately."""


def on_tool(rules: Sequence[PolicyRule], tool: str) -> Iterator[Match]:
    """Find the rules about a tool as such."""
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
    """
    Return whether a rule certainly fits a place, and its rank if it may fit. An unknown path may be any denied one.
    """
    patterns = rule.paths or ()
    if not place.is_known:
        if any(pattern.text == UNKNOWN for pattern in patterns):
            return True, (2, 0)
        return False, max((each.rank for each in patterns), default=None) if rule.decision == "deny" else None
    fits = [each.rank for each in patterns if (each.restrains(place) if rule.restrains else each.permits(place))]
    return True, max(fits, default=None)


def on_call(rules: Sequence[PolicyRule], tool: str, call: ProgramCall, *, by_name_alone: bool) -> Iterator[Match]:
    """
    Find the rules about a command. With `by_name_alone` they must name its program: a wrapper's command is judged
    apart.
    """
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
        elif pattern.begins(call) and (rule.decision == "audit" or call.is_known):
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
    """Find the rules about a host or a pattern of hosts. A rule that restrains one host restrains the pattern."""
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
    """
    Report whether a rule covers this access. A rule for one tool that writes covers all of them, and commands too.
    """
    if rule.tools is None:
        return True
    family = WRITERS if access == "write" else READERS
    if tool not in SHELLS and tool not in family:
        return _names(rule, tool)
    return any(name in family for name in rule.tools) or _names(rule, tool)


def _rank(rule: PolicyRule, *, command: int = 0, path: tuple[int, int] = (-1, 0)) -> Rank:
    """Return how specific a rule is, by its command, its path, its tool and its phase."""
    return (command, *path, 0 if rule.tools is None or "*" in rule.tools else 1, 0 if rule.phase is None else 1)


def may_permit(rule: PolicyRule, tool: str) -> bool:
    """Report whether a rule permits some, though not all, of a tool's calls."""
    return (
        not rule.restrains and rule.subject in ("files", "commands") and rule.tools is not None and _names(rule, tool)
    )


def offerable(tools: Sequence[Tool], policy: Policy) -> tuple[Tool, ...]:
    """
    Return the tools that a phase's policy lets a model see, in order. Tools that end a conversation always remain.
    """
    return tuple(tool for tool in tools if tool.kind == "end" or not is_denied_outright(policy, tool.name))


def is_denied_outright(policy: Policy, tool: str) -> bool:
    """Report whether a layer denies a tool as such and permits none of its calls."""
    person = policy.person if any(True for _ in on_tool(policy.person, tool)) else (*policy.person, *policy.built_in)
    layers = (person, policy.repository, policy.plan, policy.phase)
    return any(_denies(layer, tool) for layer in layers)


def _denies(layer: Sequence[PolicyRule], tool: str) -> bool:
    strictest = max(on_tool(layer, tool), key=lambda match: (match.rank, match.rule.decision == "deny"), default=None)
    if strictest is None or strictest.rule.decision != "deny":
        return False
    return not any(may_permit(rule, tool) for rule in layer)
