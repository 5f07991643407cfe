import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forgepool.workers.sandbox import tree
from forgepool.workers.sandbox.layers import lease_command_uid, why_level_fails
from forgepool.workers.sandbox.run.process import Command, Ended, never, run, shell
from forgepool.workers.schema.confinement import OPEN, Confinement, Level

Run = Callable[..., Ended]


@pytest.fixture(params=["off", "bubblewrap", "landlock"])
def level(request: pytest.FixtureRequest) -> Level:
    """Each level that Linux has. A test of only one says `parametrize("level", [...], indirect=True)`."""
    level: Level = request.param
    if level != "off" and (why_not := why_level_fails(level)) is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{level} does not hold here: {why_not}")
        pytest.skip(f"{level} does not hold here: {why_not}")
    return level


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Make the folder that commands run in and may write."""
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


@pytest.fixture
def confined(level: Level, place: Path, tmp_path: Path) -> Iterator[Confinement]:
    """Yield a confinement for commands that may write to `place` and to their own tmp."""
    if level == "off":
        yield OPEN
        return
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    with lease_command_uid() as uid:
        yield Confinement(level=level, writable=(place, tmp), tmp=tmp, home=tmp, uid=uid)


@pytest.fixture
def sh(place: Path, tmp_path: Path, confined: Confinement) -> Run:
    """Run a script in its own folder. Keyword arguments are those of `Command`, `stop` and `hear`."""

    def script(
        text: str,
        *,
        stop: Callable[[], bool] = never,
        hear: Callable[[bytes], None] | None = None,
        **given: object,
    ) -> Ended:
        usual: dict[str, object] = {
            "argv": shell(text),
            "cwd": place,
            "env": {"PATH": os.environ["PATH"]},
            "log": tmp_path / "log",
            "timeout_s": 20.0,
            "confined": confined,
        }
        command = Command(**(usual | given))  # type: ignore[arg-type]  # given by name, checked by the tests
        return run(command, stop=stop, hear=hear)

    return script


@pytest.fixture
def marked() -> Iterator[Callable[[str], list[int]]]:
    """Return the processes that have a variable in their environment; those left at the end are killed."""
    asked: list[str] = []

    def find(text: str) -> list[int]:
        asked.append(text)
        return [pid for pid in _everyone() if text in _environment(pid) and tree.alive(pid)]

    yield find
    tree.kill_tree([pid for text in asked for pid in _everyone() if text in _environment(pid)])


def _everyone() -> list[int]:
    names = [entry.name for entry in Path("/proc").iterdir()]
    return [int(name) for name in names if name.isdigit() and int(name) != os.getpid()]


def _environment(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return ""
