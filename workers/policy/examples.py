"""
Examples that a rule carries: what it must match, and what it must not. Held to when the rule is read.

An example is a command, a path, a host or a variable's name, by what the rule is about.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from forgepool.workers.policy.matching import Access, Touch, on_call, on_host, on_touch, on_variable
from forgepool.workers.policy.rules.command import make_call
from forgepool.workers.policy.rules.host import HostPattern
from forgepool.workers.policy.rules.place import Ground, Unresolved
from forgepool.workers.policy.rules.rule import PolicyRule
from forgepool.workers.schema.policy_rules import RuleEntry
from forgepool.workers.shell.language.script import ShellScript
from forgepool.workers.shell.read_script import read_script

_NOWHERE = Ground(root=Path("/nonexistent/worktree"), home=Path("/nonexistent/home"))
"""Where paths of examples lie: nothing on the disk says what they are."""
_EACH_ACCESS: tuple[tuple[str, Access], ...] = (("write_file", "write"), ("bash", "write"), ("read_file", "read"))


def examples_wrong(entry: RuleEntry, rule: PolicyRule) -> Iterator[tuple[str, int, str]]:
    """Those that do not come out as they should: the key, the place in its list, and the rest of a sentence."""
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
