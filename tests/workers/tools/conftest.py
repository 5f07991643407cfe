import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import JsonValue

from workers.llm.messages import ToolCall
from workers.tools.tool import Answer, carry_out
from workers.tools.toolset import WORK
from workers.tools.workplace import Workplace

Use = Callable[..., Answer]


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    """A worktree with a folder beside it that is nobody's business."""
    for name in ("worktree", "tmp", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "outside" / "secret").write_text("secret\n")
    return Workplace(
        root=(tmp_path / "worktree").resolve(),
        tmp=tmp_path / "tmp",
        env={"PATH": os.environ["PATH"]},
        stop=lambda: False,
        left_s=lambda: 20.0,
        iteration=14,
    )


@pytest.fixture
def use(place: Workplace) -> Use:
    """Calls a tool as a model does."""

    def call(tool: str, **arguments: JsonValue) -> Answer:
        return carry_out(ToolCall(id="1", name=tool, arguments=arguments), WORK, place)

    return call
