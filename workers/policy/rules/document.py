"""
A policy as people write it: a list of rules in YAML, each with its own examples, checked when it is read.

An example that does not come out as it says is a mistake of the document, told with its line. So a rule that never
fires is found by whoever writes it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from forgepool.workers.policy.examples import examples_wrong
from forgepool.workers.policy.rules.command import CommandPattern
from forgepool.workers.policy.rules.host import HostPattern
from forgepool.workers.policy.rules.place import PathPattern
from forgepool.workers.policy.rules.rule import LayerName, PolicyRule
from forgepool.workers.schema.orders import Message
from forgepool.workers.schema.policy_rules import MatchEntry, RuleEntry
from forgepool.workers.schema.yaml.documents import Located, read, read_text, validate
from forgepool.workers.schema.yaml.mistakes import DocumentWrong, Mistake
from forgepool.workers.tools.workplace import ToolRefused

_NOWHERE = Path("/nonexistent/worktree")
"""Where paths of examples lie: nothing on the disk says what they are."""


class PolicyEntry(Message):
    version: Literal[1]
    rules: tuple[RuleEntry, ...]


def read_policy(path: Path, name: str, layer: LayerName, *, home: Path | None = None) -> tuple[PolicyRule, ...]:
    """
    The rules of a file.

    Raises:
        DocumentWrong: with every mistake found, or because the file cannot be read.
    """
    return parse_policy(read_text(path, name), name, layer, home=home)


def parse_policy(text: str, name: str, layer: LayerName, *, home: Path | None = None) -> tuple[PolicyRule, ...]:
    """
    The rules of a text.

    Raises:
        DocumentWrong: with every mistake found.
    """
    document = read(text, name)
    source = validate(document, PolicyEntry)
    wrong = mistakes_in(document, source.rules, ("rules",))
    if wrong:
        raise DocumentWrong(name, wrong)
    lines = [document.line(("rules", at)) for at in range(len(source.rules))]
    return make_rules(source.rules, layer, [f"{name}:{line}" for line in lines], home=home)


def make_rules(
    entries: Sequence[RuleEntry], layer: LayerName, places: Sequence[str], *, home: Path | None = None
) -> tuple[PolicyRule, ...]:
    """
    Rules of entries in which no mistake was found; `places` are where each was written, for those without a name.
    """
    at_home = home or Path.home()
    return tuple(
        _rule(entry, layer, f"{layer}: {entry.name or place}", at_home)
        for entry, place in zip(entries, places, strict=True)
    )


def mistakes_in(document: Located, entries: Sequence[RuleEntry], where: Sequence[str | int]) -> list[Mistake]:
    """What is wrong with rules that have the right form: their globs, commands and hosts, and their examples."""
    wrong: list[Mistake] = []
    names: dict[str, int] = {}
    for at, entry in enumerate(entries):
        place = (*where, at)
        if entry.name is not None and names.setdefault(entry.name, at) != at:
            sentence = f"the name '{entry.name}' is given twice; reports go by it, change one"
            wrong.append(Mistake(document.line((*place, "name")), sentence))
        label = f"rule '{entry.name}'" if entry.name else f"rule {at + 1}"
        problem = _problem(entry)
        if problem is not None:
            key, sentence = problem
            wrong.append(Mistake(document.line((*place, "match", key)), f"'{key}' of {label} {sentence}"))
            continue
        rule = _rule(entry, "person", label, Path.home())
        for key, index, sentence in examples_wrong(entry, rule):
            wrong.append(Mistake(document.line((*place, key, index)), f"{label} {sentence}"))
    return wrong


def _problem(entry: RuleEntry) -> tuple[str, str] | None:
    """The key of `match` that is wrong, and the rest of a sentence."""
    match = entry.match
    said = [name for name in MatchEntry.model_fields if name != "phase" and getattr(match, name) is not None]
    if not said:
        return "match", "names nothing; name a tool, path, command, network host or variable (tool: '*' is every tool)"
    for one, other in (("command", "commands"), ("network", "path"), ("network", "command"), ("network", "commands")):
        if one in said and other in said:
            return one, f"cannot stand with '{other}'; make two rules of it"
    for other in ("path", "command", "commands", "network"):
        if "variable" in said and other in said:
            return "variable", f"cannot stand with '{other}'; make two rules of it"
    if match.without is not None and (
        entry.decision not in ("allow", "audit") or not {"command", "commands"} & set(said)
    ):
        return "without", "belongs to a rule that allows or audits a command; remove it"
    return _unreadable(match)


def _unreadable(match: MatchEntry) -> tuple[str, str] | None:
    for key, texts, reading in (
        ("path", match.path, lambda text: PathPattern.of(text, _NOWHERE)),
        ("network", match.network, HostPattern.of),
    ):
        for text in texts or ():
            try:
                reading(text)
            except (ValueError, ToolRefused) as wrong:
                return key, str(wrong)
    for key, commands in (("command", (match.command,)), ("commands", match.commands or ())):
        for tokens in commands:
            try:
                if tokens:
                    CommandPattern.of(tokens)
            except ValueError as wrong:
                return key, str(wrong)
    return None


def _rule(entry: RuleEntry, layer: LayerName, label: str, home: Path) -> PolicyRule:
    match = entry.match
    commands = match.commands if match.command is None else (match.command,)
    return PolicyRule(
        layer=layer,
        id=label,
        decision=entry.decision,
        reason=" ".join(entry.reason.split()),
        phase=match.phase,
        tools=match.tool,
        paths=None if match.path is None else tuple(PathPattern.of(each, home) for each in match.path),
        commands=None
        if commands is None
        else tuple(CommandPattern.of(each, match.without or ()) for each in commands if each),
        hosts=None if match.network is None else tuple(HostPattern.of(each) for each in match.network),
        variables=match.variable,
    )
