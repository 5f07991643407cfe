"""A folder shown to a command at another place can be read there and not changed."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from forgepool.workers.sandbox.layers import lease_command_uid, why_level_fails
from forgepool.workers.sandbox.run.process import Command, Ended, run, shell
from forgepool.workers.schema.confinement import Bounds, Confinement, as_json, from_json

pytestmark = pytest.mark.skipif(why_level_fails("bubblewrap") is not None, reason="folders are mounted by bubblewrap")

Run = Callable[..., Ended]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / "of").write_text("kept\n")
    return folder


@pytest.fixture
def confined(tmp_path: Path, kept: Path) -> Run:
    """Run a script in `work`, with the kept folder shown at a place."""
    work = tmp_path / "work"
    work.mkdir()

    def script(text: str, *, place: str = "deps") -> Ended:
        with lease_command_uid() as uid:
            held = Confinement(level="bubblewrap", writable=(work,), mounted=((kept, work / place),), uid=uid)
            told = from_json(json.loads(json.dumps(as_json(held))))
            assert told == held, "the guard of a background command is told the same"
            env, log = {"PATH": os.environ["PATH"]}, tmp_path / "log"
            return run(Command(argv=shell(text), cwd=work, env=env, log=log, timeout_s=20.0, confined=told))

    return script


@pytest.mark.parametrize("place", ["deps", "web/deps"])
def test_what_is_mounted_is_read_and_not_written(confined: Run, kept: Path, place: str) -> None:
    for tried in ("echo no > of", "touch new", "rm of", "chmod 777 of", "mkdir sub", f"mv $OLDPWD/{place} away"):
        ended = confined(f"cd {place} && grep -q kept of && ! {{ {tried}; }} 2>/dev/null", place=place)
        assert ended.succeeded, (tried, ended)
    assert [(each.name, each.read_text()) for each in kept.iterdir()] == [("of", "kept\n")]


def test_a_link_at_the_place_is_not_followed(confined: Run, tmp_path: Path) -> None:
    """Nothing is mounted and no folder is made where it leads."""
    (tmp_path / "work/deps").symlink_to(tmp_path / "elsewhere/deps")
    (tmp_path / "work/web").symlink_to(tmp_path / "elsewhere")
    assert confined("test ! -e deps/of && test -L deps").succeeded
    assert confined("test ! -e web/deps/of && test -L web", place="web/deps").succeeded
    assert not (tmp_path / "elsewhere").exists()


def test_the_kept_folder_itself_is_not_to_be_seen(confined: Run, kept: Path) -> None:
    assert confined(f"test -e deps/of && test ! -e {kept}").succeeded


def test_bounds_cross_too() -> None:
    held = Confinement(level="off", bounds=Bounds(processes=3), groups=(Path("/g/cgroup.procs"),))
    assert from_json(as_json(held)) == held
