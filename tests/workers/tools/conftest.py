import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue

from forgepool.workers.llm.messages import ToolCall
from forgepool.workers.sandbox.run.background import Background
from forgepool.workers.schema.confinement import OPEN
from forgepool.workers.tools.files.apply_patch import APPLY_PATCH
from forgepool.workers.tools.tool import Tool, ToolAnswer, carry_out
from forgepool.workers.tools.toolset import working
from forgepool.workers.tools.workplace import Workplace
from forgepool.worktrees.git.git import Git

Use = Callable[..., ToolAnswer]


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    """Make a worktree with a folder beside it that must not be touched."""
    for name in ("worktree", "tmp", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "outside" / "secret").write_text("secret\n")
    root = (tmp_path / "worktree").resolve()
    return Workplace(
        root=root,
        git=Git(git_dir=root / ".git", work_tree=root),
        tmp=tmp_path / "tmp",
        env={"PATH": os.environ["PATH"]},
        confined=OPEN,
        stop=lambda: False,
        left_s=lambda: 20.0,
        iteration=14,
    )


@pytest.fixture
def background() -> Iterator[Background]:
    with Background() as running:
        yield running


@pytest.fixture
def tools(background: Background) -> tuple[Tool, ...]:
    """Return all tools, whatever the model's family."""
    return (*working("claude", background), APPLY_PATCH)


@pytest.fixture
def use(place: Workplace, tools: tuple[Tool, ...]) -> Use:
    """Call a tool as the loop does; `at` changes the workplace for the call."""

    def call(tool: str, at: dict[str, object] | None = None, **arguments: JsonValue) -> ToolAnswer:
        where = replace(place, **at) if at else place  # type: ignore[arg-type]  # given by name
        return carry_out(ToolCall(id="1", name=tool, arguments=arguments), tools, where)

    return call
