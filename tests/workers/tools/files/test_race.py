"""
A process swaps folders and files of the worktree for links to outside, and no tool reads or writes there.

There are 20,000 reads and writes. Another test proves that the set-up catches a tool that checks a name and then opens
it.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from swapping import swapped

from forgepool.workers.tools.tool import ToolAnswer
from forgepool.workers.tools.workplace import Workplace

Use = Callable[..., ToolAnswer]

_TIMES = 3_400
_RIGHT = "right here\n"
_WRONG = "not to be read\n"


@pytest.fixture(params=["folder", "file", "folder above"])
def racing(request: pytest.FixtureRequest, place: Workplace) -> Iterator[Path]:
    """Yield the outside folder, to which a link in the worktree leads half of the time."""
    outside = place.root.parent / "outside"
    (outside / "deep").mkdir()
    inside = place.root / "src"
    (inside / "deep").mkdir(parents=True)
    for folder, text in ((inside, _RIGHT), (outside, _WRONG)):
        (folder / "a.txt").write_text(text)
        (folder / "deep" / "a.txt").write_text(text)
    one, other = {
        "folder": (inside / "deep", outside / "deep"),
        "file": (inside / "deep" / "a.txt", outside / "deep" / "a.txt"),
        "folder above": (inside, outside),
    }[request.param]
    link = place.root / "link"
    link.symlink_to(other)
    before = _content(outside)
    with swapped(one, link):
        yield outside
    assert _content(outside) == before


def _content(folder: Path) -> dict[Path, tuple[int, str]]:
    return {each: (each.stat().st_mode, each.read_text()) for each in folder.rglob("*") if each.is_file()}


def test_nothing_outside_is_read(use: Use, racing: Path) -> None:
    """The answer is the text or a refusal, and never the outside text."""
    answers = [use("read_file", path="src/deep/a.txt") for _ in range(_TIMES)]
    assert not [answer for answer in answers if _WRONG.strip() in answer.text]
    assert any(_RIGHT.strip() in answer.text for answer in answers)


def test_nothing_outside_is_written(use: Use, racing: Path) -> None:
    """No writing tool makes, changes or removes a file there."""
    patch = "*** Begin Patch\n*** Add File: src/deep/new.txt\n+x\n*** End Patch"
    gone = "*** Begin Patch\n*** Delete File: src/deep/new.txt\n*** End Patch"
    worked = 0
    for number in range(_TIMES // 4):
        worked += not use("write_file", path="src/deep/a.txt", content=_RIGHT).is_error
        use("write_file", path=f"src/deep/made{number}/b.txt", content="x")
        use("edit_file", path="src/deep/a.txt", old="right", new="right")
        use("apply_patch", input=patch if number % 2 else gone)
    assert worked


def test_who_opens_a_path_that_was_resolved_reads_outside(place: Workplace, racing: Path) -> None:
    """This proves that the tests above would catch such a tool."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            real = (place.root / "src/deep/a.txt").resolve()
            if real.is_relative_to(place.root) and real.read_text() == _WRONG:
                return
        except OSError:
            continue
    pytest.fail("in half a minute no link was followed: nothing is shown by the other tests")
