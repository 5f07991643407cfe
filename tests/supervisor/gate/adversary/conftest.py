"""The hub on which all candidates are judged; each process of pytest has one."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from dishonest import BEYOND, DISHONEST
from ground import Ground, make_ground
from honest import HONEST


@pytest.fixture(scope="session")
def ground() -> Iterator[Ground]:
    folder = Path(tempfile.mkdtemp(prefix="adv-"))
    yield make_ground(folder, [*DISHONEST, *BEYOND, *HONEST])
    shutil.rmtree(folder, ignore_errors=True)
