"""The projects, each laid out once by the process that tests it."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
from projects import PROJECTS, NotHere, Project, open_project
from tools import TOOLS, edit

from forgepool.worktrees.git.git import CommitId

Open = Callable[[str], Project]


@pytest.fixture
def open_or_skip(tmp_path: Path) -> Open:
    return partial(_open, folder=tmp_path / "checkout")


@pytest.fixture(scope="session", params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in PROJECTS])
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Project:
    return _open(request.param, tmp_path_factory.mktemp("project") / "checkout")


@pytest.fixture(scope="session")
def edits(project: Project) -> Mapping[str, CommitId]:
    """Return each tool's own edit of the project."""
    return {tool: edit(project, tool) for tool in TOOLS}


def _open(name: str, folder: Path) -> Project:
    try:
        return open_project(name, folder)
    except NotHere as missing:
        pytest.skip(str(missing))
