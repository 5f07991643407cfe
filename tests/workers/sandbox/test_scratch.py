"""Temporary folders of processes that were killed at any moment."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from forgepool.workers.sandbox import tree
from forgepool.workers.sandbox.scratch import make_scratch, scratch, sweep


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_whose_maker_died_before_it_was_named_is_swept(place: Path) -> None:
    """Its name identifies its maker by pid and start time, so folders of live makers stay."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    began = tree.start_time(os.getpid())
    for pid, started in ((dead.pid, 5), (os.getpid(), 5), (os.getpid(), began)):
        (place / f".fpool-{pid}.{started}-abc").mkdir()
    sweep()
    assert [each.name for each in place.iterdir()] == [f".fpool-{os.getpid()}.{began}-abc"]


def test_a_folder_has_its_name_and_goes_with_its_maker(place: Path) -> None:
    made = scratch()
    assert made.path.name.startswith("fpool-") and list(place.iterdir()) == [made.path]
    sweep()
    assert made.path.is_dir(), "it is locked"
    made.remove()
    assert list(place.iterdir()) == []


def test_a_folder_of_a_block_goes_with_it_or_with_its_process(place: Path) -> None:
    with make_scratch() as folder:
        (folder / "file").write_text("x")
    assert list(place.iterdir()) == []
    killed = "with make_scratch(): os.kill(os.getpid(), signal.SIGKILL)"
    source = f"import os, signal\nfrom forgepool.workers.sandbox.scratch import make_scratch\n{killed}"
    subprocess.run([sys.executable, "-c", source], env={**os.environ, "TMPDIR": str(place)})
    assert len(list(place.iterdir())) == 1
    sweep()
    assert list(place.iterdir()) == []
