"""No scan refuses the edits of a formatter, an import sorter or a linter's safe fixes to a real project."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from projects import Project, open_folder
from tools import TOOLS, edit

from forgepool.worktrees.git.git import CommitId

pytestmark = pytest.mark.honest
_RIGHTLY_REFUSED = {
    # Ruff's PLR1736 takes `r[i]` for `v`, and `assertEqual(v, r[i])` becomes `assertEqual(v, v)`.
    ("more-itertools", "ruff check --fix"): [("test-tautology", "tests/test_more.py", "assert v == v")],
}
_SLOPPY = "import sys\nimport os\ndef pairs():\n    return [set([1]), sys.path, 'x'  ]\n"


@pytest.mark.parametrize("tool", TOOLS)
def test_an_edit_by_one_tool_alone_passes_the_scans(project: Project, edits: Mapping[str, CommitId], tool: str) -> None:
    refusals = project.refusals(edits[tool]) if project.changed(edits[tool]) else ()
    assert [(one.rule, one.path, one.text) for one in refusals] == _RIGHTLY_REFUSED.get((project.name, tool), [])


def test_the_tools_edit_every_project(edits: Mapping[str, CommitId], project: Project) -> None:
    """A matrix without any edit would prove nothing."""
    assert sum(len(project.changed(commit)) for commit in edits.values()) >= 5


@pytest.mark.parametrize("tool", TOOLS)
def test_each_tool_edits_a_sloppy_file(tool: str, tmp_path: Path) -> None:
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "sloppy.py").write_text(_SLOPPY)
    sloppy = open_folder(folder)
    assert sloppy.changed(edit(sloppy, tool)) == ["sloppy.py"]
