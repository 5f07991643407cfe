"""
The paths that the built-in policy keeps from agents, for the gate: one list, in `defaults.yaml`.

The policy says what an agent may write. The gate looks at what any program, or an agent elsewhere, has written.
"""

import unicodedata
from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from forgepool.workers.schema.documents import read, validate
from forgepool.workers.schema.globs import Pattern, parse
from forgepool.workers.schema.policy_rules import RuleEntry

INSTRUCTS = "instructs-agents"
"""The rule about files that tell agents and reviewers what to do."""
GUIDANCE = ("AGENTS.md", "CLAUDE.md", "CONTRIBUTING.md")
"""The files whose words agents and reviewers are given: quoted as the target has them, never as a change has them."""
_KEPT = ("agents-own-files", "runs-at-peoples", INSTRUCTS)
_DEFAULTS = Path(__file__).parents[1] / "defaults.yaml"


class _BuiltInRules(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    rules: tuple[RuleEntry, ...]


@lru_cache(maxsize=65536)
def find_path_rule(path: str) -> RuleEntry | None:
    """Return the built-in rule that keeps this path of a repository; None for all others."""
    folded = _fold(path)
    return next(
        (rule for rule, globs in _kept() if any(glob.matches(_name(rule, path, folded)) for glob in globs)), None
    )


@lru_cache(maxsize=1)
def _kept() -> tuple[tuple[RuleEntry, tuple[Pattern, ...]], ...]:
    text = _DEFAULTS.read_text(encoding="utf-8")
    rules = {rule.name: rule for rule in validate(read(text, _DEFAULTS.name), _BuiltInRules).rules}
    found = [rules[name] for name in _KEPT]
    return tuple(
        (rule, tuple(parse(_name(rule, glob, _fold(glob))) for glob in rule.match.path or ())) for rule in found
    )


def _name(rule: RuleEntry, text: str, folded: str) -> str:
    """Return the spelling that counts. `docs/agents.md` is about agents; a `.ENVRC` runs where case does not matter."""
    return text if rule.name == INSTRUCTS else folded


def _fold(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()
