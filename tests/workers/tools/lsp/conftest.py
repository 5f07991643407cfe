import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from forgepool.workers.schema.confinement import OPEN
from forgepool.workers.tools.config import LanguageServer
from forgepool.workers.tools.lsp.servers import LanguageServers

Begin = Callable[..., LanguageServers]
Notes = Callable[[], list[dict[str, object]]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a worktree with a file in the toy language."""
    place = (tmp_path / "worktree").resolve()
    place.mkdir()
    (place / "a.toy").write_text("def open\nopen open\nclose\n")
    return place


@pytest.fixture
def begin(root: Path, tmp_path: Path) -> Iterator[Begin]:
    """Start an order's servers: one for the toy language, with or without a fault."""
    with ExitStack() as ending:

        def servers(fault: str = "none", **given: object) -> LanguageServers:
            toy = LanguageServer(
                name="toy",
                command=(sys.executable, str(Path(__file__).with_name("toy.py")), fault, str(tmp_path / "notes")),
                files={".toy": "toylang"},
                settings={"toy": {"depth": 3}},
            )
            env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
            return ending.enter_context(
                LanguageServers(root, env, OPEN, (toy,), lambda name: {sys.executable: name}.get(name))
            )

        yield servers


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    """Return what the toy server noted."""
    return lambda: [json.loads(line) for line in (tmp_path / "notes").read_text().splitlines()]
