"""
Which rule decides: the layers of a policy, and what each may do to the ones below it.

    built-in, person   the most specific rule of both; at equal rank the person's, and within one layer the strictest.
                       What a person restrains, no built-in rule permits again, however specific it is.
    repository         can only tighten.
    plan               can tighten, and can decide what stands at `prompt`; never lifts a deny.
    phase              can only tighten.

Where no rule speaks, it is `prompt`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from forgepool.workers.policy.rules.command import Likeness, ProgramCall
from forgepool.workers.policy.rules.rule import READERS, STRICTNESS, PolicyRule
from forgepool.workers.schema.orders import PhaseName
from forgepool.workers.schema.policy_rules import Decision

Rank = tuple[int, ...]
_MOST_KNOWN = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A rule that bears on what is judged."""

    rule: PolicyRule
    rank: Rank
    likeness: Likeness = "yes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is decided of one thing, and by which rule; None where there was none."""

    decision: Decision
    match: Match | None = None


Find = Callable[[Sequence[PolicyRule]], Iterable[Match]]
"""Those of some rules that bear on one thing."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """All rules in force, by layer."""

    built_in: tuple[PolicyRule, ...] = ()
    person: tuple[PolicyRule, ...] = ()
    repository: tuple[PolicyRule, ...] = ()
    plan: tuple[PolicyRule, ...] = ()
    phase: tuple[PolicyRule, ...] = ()
    _about: dict[tuple[str, ...], "Policy"] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def restrains_reading(self) -> bool:
        """Whether it matters which files a command may read."""
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
        """The same policy without the rules of other phases."""
        kept = [tuple(rule for rule in layer if rule.phase in (None, phase)) for layer in self._layers]
        return Policy(built_in=kept[0], person=kept[1], repository=kept[2], plan=kept[3], phase=kept[4])

    def about(self, call: ProgramCall) -> "Policy":
        """The same policy without the rules that name other programs: what is asked of it is a command of this one."""
        if call.names not in self._about:
            if len(self._about) >= _MOST_KNOWN:
                self._about.clear()
            kept = [tuple(_about(rule, call) for rule in layer if _may_name(rule, call)) for layer in self._layers]
            made = Policy(built_in=kept[0], person=kept[1], repository=kept[2], plan=kept[3], phase=kept[4])
            self._about[call.names] = made
        return self._about[call.names]

    @property
    def _layers(self) -> tuple[tuple[PolicyRule, ...], ...]:
        return self.built_in, self.person, self.repository, self.plan, self.phase

    def decide(self, find: Find, *, silent: Decision | None = "prompt") -> Verdict | None:
        """
        The decision on one thing. `silent`: what it is where no rule speaks; None where that is no matter.
        """
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
    """The most specific; the strictest of those at one rank, and of these the first."""
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
