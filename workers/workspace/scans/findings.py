"""The change that scans are given, what they find in it, and the words for that."""

import shlex
from typing import Literal

from forgepool.workers.policy.gate_file.document import OF_THE_GATE
from forgepool.workers.schema.orders import Message

Weight = Literal["blocks", "attention", "note"]
"""
The weight of a scan's finding. `blocks`: the entry is kept out. `attention`: it waits for a look by a person or a
reviewer of another family. `note`: it is told, and holds nothing up.
"""


class ScannedChange(Message):
    """A task's change, by what was declared of it, what a person allows it, and what its agent said."""

    commit: str = ""
    """The commit whose history would enter the target; empty while there is none."""
    holds: tuple[str, ...] | None = None
    """Globs the task may write, as a person declared them; None where none were declared."""
    extended: tuple[str, ...] = ()
    """
    Further paths it holds, because it asked for them or touched them undeclared. That is no permission to change tests.
    """
    grants: tuple[str, ...] = ()
    """Globs of protected paths and tests that a person lets this task change."""
    waive: tuple[str, ...] = ()
    """Rules of scans that a person waives for this task."""
    planned: tuple[str, ...] = ()
    """The paths its agent said it would change."""
    claims: str = ""
    """The agent's own words about its work; quoted, never believed."""

    @property
    def by_person(self) -> bool:
        return False


class ScanFinding(Message):
    """Something that a deterministic scan found in the composed diff."""

    rule: str
    """By which it is waived: `placeholder`, `test-removed`, `protected-path`, ..."""
    path: str
    line: int = 0
    """The line in the new file, or in the old one where it was removed; 0 is the whole file, or the whole change."""
    text: str = ""
    """The line, shortened; empty where none is meant. Never a secret."""
    weight: Weight
    said: str
    """One sentence: what is wrong; what would be right."""
    entry: str = ""
    """The entry whose change it is about; empty for what several entries do together, and in older journals."""

    def is_of(self, entry: str) -> bool:
        return self.entry in ("", entry)


_WITHOUT_PATH = frozenset(["claimed-unchanged", "claimed-commit", "claimed-work", "empty-change"])
"""Rules of the gate that are about no path, so that no grant covers them."""


def is_grantable(one: ScanFinding) -> bool:
    """Tell whether a grant of its path lets the finding through. Otherwise its rule must be waived."""
    about_path = one.rule in OF_THE_GATE and one.rule not in _WITHOUT_PATH and one.path not in ("", ".")
    return about_path and one.path.isprintable() and not any(sign in one.path for sign in "*?[]{}\\")


def way_out(one: ScanFinding) -> str:
    """Return how a person lets in what was found, for the end of its sentence."""
    if is_grantable(one):
        return f"; if it is meant, a person grants it: --grant {shlex.quote(one.path)}, or `grants` of the task"
    if one.rule == "secret":
        return "; if it is none, a person waives the rule: --waive secret, or `waive` of the task"
    return f"; if it is meant, a person waives the rule: --waive {one.rule}, or `waive` of the task"


def finding_words(one: ScanFinding) -> str:
    """`src/a.py:3: placeholder: ...`; the file alone where no line is meant."""
    place = f"{one.path}:{one.line}" if one.line else one.path
    text = f" (`{one.text}`)" if one.text else ""
    before = f"{place}: " if place not in ("", ".") else ""
    return " ".join(f"{before}{one.rule}: {one.said}{text}".split())
