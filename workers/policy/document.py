"""
A policy as people write it: a list of rules in YAML, each with its own examples.

An example that does not come out as stated is a mistake with its line, so that an author notices a rule that never
matches.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from forgepool.workers.policy.command import CommandPattern, make_call
from forgepool.workers.policy.layers import Access, Touch, on_call, on_host, on_touch, on_variable
from forgepool.workers.policy.rule import Ground, HostPattern, LayerName, PathPattern, PolicyRule, Unresolved
from forgepool.workers.schema.documents import Located, Version, read, read_text, validate
from forgepool.workers.schema.mistakes import DocumentWrong, Mistake
from forgepool.workers.schema.orders import Message
from forgepool.workers.schema.policy_rules import MatchEntry, RuleEntry
from forgepool.workers.shell.language.script import ShellScript
from forgepool.workers.shell.read_script import read_script
from forgepool.workers.tools.workplace import ToolRefused

_NOWHERE = Ground(root=Path("/nonexistent/worktree"), home=Path("/nonexistent/home"))
"""The worktree of examples, which does not exist, so that no file on disk changes their meaning."""
_EACH_ACCESS: tuple[tuple[str, Access], ...] = (("write_file", "write"), ("bash", "write"), ("read_file", "read"))


def examples_wrong(entry: RuleEntry, rule: PolicyRule) -> Iterator[tuple[str, int, str]]:
    """Yield the examples that do not come out as stated: key, index, and the rest of a sentence."""
    fits = None if rule.subject == "files" and rule.commands is not None else _FITS.get(rule.subject)
    for key, examples, should in (
        ("match_examples", entry.match_examples, True),
        ("not_match_examples", entry.not_match_examples, False),
    ):
        for index, example in enumerate(examples):
            if fits is None:
                about = "tools alone" if rule.subject == "tools" else "commands and paths together"
                yield key, index, f"has examples, which a rule about {about} cannot have; remove them"
            elif fits(rule, example) != should:
                yield key, index, f"{'does not match' if should else 'matches'} its example '{example[:80]}'"


def _fits_command(rule: PolicyRule, example: str) -> bool:
    script = read_script(example, folder=_NOWHERE.root)
    if not isinstance(script, ShellScript):
        return False
    calls = (make_call(each, _NOWHERE.root) for each in script.executions)
    return any(any(on_call([rule], _tool(rule), call, by_name_alone=False)) for call in calls)


def _fits_path(rule: PolicyRule, example: str) -> bool:
    place = _NOWHERE.place(f"{Path.home()}{example[1:]}" if example.startswith("~/") else example)
    if isinstance(place, Unresolved):
        return False
    return any(any(on_touch([rule], tool, Touch(access=access, place=place))) for tool, access in _EACH_ACCESS)


def _fits_host(rule: PolicyRule, example: str) -> bool:
    try:
        return any(on_host([rule], HostPattern.of(example)))
    except ValueError:
        return False


def _fits_variable(rule: PolicyRule, example: str) -> bool:
    return any(on_variable([rule], _tool(rule), example))


def _tool(rule: PolicyRule) -> str:
    return next(iter(rule.tools or ("bash",)))


_FITS: Mapping[str, Callable[[PolicyRule, str], bool]] = {
    "commands": _fits_command,
    "files": _fits_path,
    "hosts": _fits_host,
    "variables": _fits_variable,
}


class PolicyEntry(Message):
    version: Version
    rules: tuple[RuleEntry, ...]


def read_policy(path: Path, name: str, layer: LayerName, *, home: Path | None = None) -> tuple[PolicyRule, ...]:
    """
    Read the rules of a file.

    Raises:
        DocumentWrong: with every mistake found, or because the file cannot be read.
    """
    return parse_policy(read_text(path, name), name, layer, home=home)


def parse_policy(text: str, name: str, layer: LayerName, *, home: Path | None = None) -> tuple[PolicyRule, ...]:
    """
    Read the rules of a text.

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
    """Make rules of correct entries; `places` name the rules that have no name."""
    at_home = home or Path.home()
    return tuple(
        _rule(entry, layer, f"{layer}: {entry.name or place}", at_home)
        for entry, place in zip(entries, places, strict=True)
    )


def mistakes_in(document: Located, entries: Sequence[RuleEntry], where: Sequence[str | int]) -> list[Mistake]:
    """Return the mistakes in well-formed rules: in their globs, commands, hosts and examples."""
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
    """Return the wrong key of `match` and the rest of a sentence."""
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
        ("path", match.path, lambda text: PathPattern.of(text, _NOWHERE.root)),
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
