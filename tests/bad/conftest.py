"""A person's repository with one commit, made once and copied for every test."""

import shutil
from pathlib import Path

import pytest
from premises import Premises


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one commit."""
    first = Premises.at(tmp_path_factory.mktemp("template"))
    first.git("init", "-q", "-b", "main", first.repo, folder=first.folder)
    first.commit({"README": "read me\n"}, "first")
    return first.repo


@pytest.fixture
def premises(template: Path, tmp_path: Path) -> Premises:
    made = Premises.at(tmp_path)
    shutil.copytree(template, made.repo)
    return made
