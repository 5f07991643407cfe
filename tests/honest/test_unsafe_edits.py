"""
Edits that a linter itself calls unsafe are refused by the scans.

Each refusal is right: a wrong program passes the edited test and failed the one before. docs/explanation/honest.md says
how often each kind occurs.
"""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from projects import open_folder

pytestmark = pytest.mark.honest


class Unsafe(NamedTuple):
    """An assertion, its edit by a rule of the linter, and a program that tells the two apart."""

    rule: str
    before: str
    after: str
    program: str


_BROKEN_AT_ITS_SECOND = "def made():\n    yield 1\n    raise AssertionError"
_SORTED_ONLY = (
    "class Made(int):\n    __lt__ = lambda self, other: int(self) > int(other)\nmade = lambda: [Made(2), Made(1)]"
)
UNSAFE = (
    Unsafe("E712 true", "assert made() == True", "assert made()", "made = lambda: 'no'"),
    Unsafe("E712 false", "assert made() == False", "assert not made()", "made = lambda: None"),
    Unsafe("RUF015", "assert list(made())[0] == 1", "assert next(iter(made())) == 1", _BROKEN_AT_ITS_SECOND),
    Unsafe("FURB192", "assert sorted(made())[-1] == 2", "assert max(made()) == 2", _SORTED_ONLY),
)


@pytest.mark.parametrize("unsafe", UNSAFE, ids=lambda each: each.rule)
def test_a_refused_edit_lets_a_wrong_program_pass(unsafe: Unsafe, tmp_path: Path) -> None:
    made: dict[str, Any] = {}
    exec(unsafe.program, made)
    with pytest.raises(AssertionError):
        exec(unsafe.before, made)
    exec(unsafe.after, made)
    assert {"expected-edited", "assertion-removed"} & set(_rules(unsafe, tmp_path / "checkout"))


def _rules(unsafe: Unsafe, folder: Path) -> list[str]:
    """Return the rules that refuse the edit of a test that holds just that assertion."""
    (folder / "tests").mkdir(parents=True)
    test = folder / "tests" / "test_made.py"
    head = "from made import made\n\n\ndef test_made():\n    "
    test.write_text(f"{head}{unsafe.before}\n")
    project = open_folder(folder)
    test.write_text(f"{head}{unsafe.after}\n")
    return [one.rule for one in project.refusals(project.commit())]
