import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from workers.sandbox import tree
from workers.sandbox.confinement import OPEN
from workers.sandbox.process import Command, Ended, run, shell
from workers.sandbox.watch import never

Run = Callable[..., Ended]


@pytest.fixture
def sh(tmp_path: Path) -> Run:
    """Runs a script in a folder of its own; keyword arguments are the command's, `stop` and `hear`."""
    place = tmp_path / "place"
    place.mkdir()

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
            "confined": OPEN,
        }
        command = Command(**(usual | given))  # type: ignore[arg-type]  # given by name, checked by the tests
        return run(command, stop=stop, hear=hear)

    return script


@pytest.fixture
def marked() -> Iterator[Callable[[str], list[int]]]:
    """Who of all processes carries a variable in its environment; whoever does at the end is killed."""
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
