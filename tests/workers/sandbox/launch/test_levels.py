"""Trying a level shows what it provides, and the report says what to do."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from forgepool.workers.sandbox.layers import NoSandbox, choose_level, layers, why_level_fails
from forgepool.workers.sandbox.run.process import Command, Ended, run
from forgepool.workers.schema.confinement import Confinement, Level

Sh = Callable[..., Ended]
CONFINED = pytest.mark.parametrize("level", ["bubblewrap", "landlock"], indirect=True)
BUBBLEWRAP = pytest.mark.parametrize("level", ["bubblewrap"], indirect=True)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these are levels of Linux")


@BUBBLEWRAP
def test_the_best_that_holds_is_chosen(level: Level) -> None:
    assert choose_level("auto") == level
    assert choose_level("require") == level
    assert choose_level("off") == "off"


@CONFINED
def test_what_holds_is_told_for_each_level(level: Level) -> None:
    found = layers()
    assert getattr(found, level) is None
    assert found.root is (os.geteuid() == 0)


def test_a_level_of_another_system_does_not_hold() -> None:
    assert why_level_fails("seatbelt") is not None


@pytest.mark.parametrize("level", ["off"], indirect=True)
def test_a_level_that_cannot_be_had_runs_nothing(sh: Sh, place: Path) -> None:
    """The command never runs without it."""
    ended = sh("touch ran", confined=Confinement(level="seatbelt", writable=(place,)))
    assert (ended.how, list(place.iterdir())) == ("not_started", [])


@CONFINED
def test_everything_a_command_starts_is_held_too(sh: Sh) -> None:
    """The filter and the loss of rights are permanent and include the first process."""
    for status in ("self", "thread-self"):
        said = sh(f"grep -E '^(NoNewPrivs|Seccomp|CapEff|CapBnd)' /proc/{status}/status").tail
        assert "NoNewPrivs:\t1\nSeccomp:\t2\n" in said
        assert "CapEff:\t0000000000000000" in said


@BUBBLEWRAP
def test_the_first_process_of_a_sandbox_is_filtered(sh: Sh) -> None:
    """bwrap's own process has the same user, so a command may write its memory. It must not be able to do more."""
    said = sh("grep -E '^(Name|NoNewPrivs|Seccomp|CapEff):' /proc/1/status").tail
    assert said == "Name:\tbwrap\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n"


@BUBBLEWRAP
def test_its_root_holds_what_is_named_alone(sh: Sh, place: Path) -> None:
    """There is no home, no state and no socket, and only the command's own folders are writable."""
    shown = set(sh("ls -A /").tail.split())
    usual = {
        "bin",
        "dev",
        "etc",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "opt",
        "proc",
        "run",
        "sbin",
        "sys",
        "tmp",
        "usr",
        "var",
    }
    assert shown - usual <= {place.parts[1], *_above_tools()}
    written = sh("find / -xdev -writable ! -type l ! -path '/proc/*' ! -path '/dev/*' 2>/dev/null").tail.split()
    assert {each for each in written if not each.startswith(("/tmp", str(place), str(place.parent / "tmp")))} <= {
        "/dev"
    }


def _above_tools() -> set[str]:
    """Return the top folders above the programs on this PATH."""
    return {Path(os.path.realpath(each)).parts[1] for each in os.environ["PATH"].split(":") if each.startswith("/")}


@BUBBLEWRAP
def test_no_mount_can_be_taken_away(sh: Sh, confined: Confinement, place: Path) -> None:
    """A protected file inside the writable folder stays, under any name."""
    pointer = place / ".git"
    pointer.write_text("gitdir: elsewhere\n")
    attack = "rm -f .git; mv .git x; ln -sf x .git; echo x > .git; umount .git; chmod 666 .git; mv ../place ../other"
    sh(attack, confined=replace(confined, protected=(pointer,)))
    assert pointer.read_text() == "gitdir: elsewhere\n"
    assert [entry.name for entry in place.iterdir()] == [".git"]


@CONFINED
def test_a_folder_that_commands_may_write_says_nothing_of_what_they_see(sh: Sh, place: Path, tmp_path: Path) -> None:
    """One command could put links or a `pyvenv.cfg` there that open a folder of the user to the next."""
    secret = tmp_path / "keys"
    secret.mkdir()
    (secret / "key").write_text("secret")
    (place / "bin").mkdir()
    (place / "bin" / "tool").symlink_to(secret / "key")
    (place / "pyvenv.cfg").write_text(f"home = {secret}\n")
    env = {"PATH": f"{place}/bin:{os.environ['PATH']}"}
    assert sh(f"cat {secret}/key", env=env).status != 0
    assert sh("true", argv=(f"{place}/bin/run", "x"), env=env).how == "not_started"
    assert sh(f"cat {secret}/key", argv=(f"{place}/bin/../bin/run",), env=env).how == "not_started"


@CONFINED
def test_files_stay_the_user_s_own(sh: Sh, place: Path) -> None:
    """Files that a command makes belong to the harness's user on disk."""
    (place / "mine").write_text("mine")
    assert sh("echo more >> mine && mkdir made && chmod 700 made && touch made/file").succeeded
    assert {each.stat().st_uid for each in place.rglob("*")} == {os.getuid()}


def test_a_requirement_that_does_not_hold_is_a_sentence() -> None:
    """The sentence says what is wrong and what would be right."""
    if why_level_fails("bubblewrap") is None:
        return
    with pytest.raises(NoSandbox, match=r"bubblewrap is required and does not hold: .*; "):
        choose_level("require")


def test_the_fallback_starts_nothing_that_was_granted_hosts(tmp_path: Path) -> None:
    """It could give the command either no network or all of it."""
    confined = Confinement(level="landlock", writable=(tmp_path,), outlet=_Nowhere())
    log = tmp_path / "log"
    ended = run(Command(argv=("true",), cwd=tmp_path, env={}, log=log, timeout_s=9, confined=confined))
    assert (ended.how, "only bubblewrap" in ended.tail) == ("not_started", True)


class _Nowhere:
    ports = (1,)

    def serve(self, listeners: object) -> None:
        raise AssertionError("nothing runs")

    def release(self, listeners: object) -> None: ...
