import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from daemons import until

from forgepool.workers.sandbox import tree
from forgepool.workers.sandbox.run.dialogue import Dialogue
from forgepool.workers.sandbox.run.process import Ended
from forgepool.workers.schema.confinement import OPEN

Find = Callable[[str], list[int]]
Sh = Callable[..., Ended]
Start = Callable[[str], Dialogue]

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="process trees are seen on Linux")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a shell script to talk to, and end what the test leaves."""
    started: list[Dialogue] = []

    def script(text: str) -> Dialogue:
        env = {"PATH": os.environ["PATH"], "WHOSE": f"dialogue-{tmp_path.name}"}
        started.append(Dialogue(("/bin/sh", "-c", text), cwd=tmp_path, env=env, confined=OPEN))
        return started[-1]

    yield script
    for each in started:
        each.end()


async def _echoed(dialogue: Dialogue, line: bytes) -> bytes:
    reader, writer = await dialogue.connect()
    writer.write(line)
    answer = await asyncio.wait_for(reader.readline(), 10)
    await dialogue.hang_up()
    return answer


def test_what_is_said_is_heard_and_answered(start: Start) -> None:
    """Both pipes reach the program, and its answers contain no other output."""
    dialogue = start("echo aside >&2; read line; echo heard $line")
    assert asyncio.run(_echoed(dialogue, b"hello\n")) == b"heard hello\n"


def test_the_last_words_of_a_program_are_kept(start: Start) -> None:
    """They are the end of its standard error, however much it wrote before."""
    dialogue = start("seq 100000 >&2; echo the end >&2; read line; echo done")
    assert asyncio.run(_echoed(dialogue, b"\n")) == b"done\n"
    assert dialogue.last_words() == "the end"


def test_its_environment_is_what_it_is_given(start: Start) -> None:
    """It has nothing of the worker's environment, which holds secrets."""
    answer = asyncio.run(_echoed(start("read x; env | cut -d= -f1 | sort | tr '\\n' ' '; echo"), b"\n"))
    assert set(answer.decode().split()) <= {"PATH", "WHOSE", "FORGEPOOL_COMMAND", "PWD", "OLDPWD", "SHLVL", "_"}


def test_a_command_that_ends_leaves_a_dialogue_alone(start: Start, sh: Sh, marked: Find, tmp_path: Path) -> None:
    """The command's end ends only its own processes, whichever of the two began first."""
    early = start("sleep 600 & (setsid sleep 600 &); read x; echo up; exec sleep 600")
    assert asyncio.run(_echoed(early, b"\n")) == b"up\n"
    assert sh("sleep 600 & (setsid sleep 600 &); echo done").succeeded
    ended: list[Ended] = []
    os.mkfifo(tmp_path / "place" / "begun")
    os.mkfifo(tmp_path / "place" / "go")
    running = threading.Thread(target=lambda: ended.append(sh("echo begun > begun; read x < go")))
    running.start()
    assert (tmp_path / "place" / "begun").read_text() == "begun\n"
    late = start("setsid sleep 600 & read x; echo up; exec sleep 600")
    assert asyncio.run(_echoed(late, b"\n")) == b"up\n"
    (tmp_path / "place" / "go").write_text("go\n")
    running.join()
    assert ended[0].how == "exit"
    assert early.running() and late.running()
    until(lambda: len(marked(f"WHOSE=dialogue-{tmp_path.name}")) == 5)


def test_the_end_of_a_dialogue_takes_all_of_it_and_nothing_else(
    start: Start, sh: Sh, marked: Find, tmp_path: Path
) -> None:
    """The program's daemons die with it, and a command that runs continues."""
    dialogue = start("sleep 600 & (setsid sleep 600 &) ; read x; setsid env -i sleep 600 & echo $!; exec sleep 600")
    nameless = int(asyncio.run(_echoed(dialogue, b"\n")))
    until(lambda: len(marked(f"WHOSE=dialogue-{tmp_path.name}")) >= 3)
    os.mkfifo(tmp_path / "place" / "go")
    ended: list[Ended] = []
    running = threading.Thread(target=lambda: ended.append(sh("setsid sleep 600 & read x < go; echo $x")))
    running.start()
    dialogue.end()
    assert marked(f"WHOSE=dialogue-{tmp_path.name}") == []
    assert not tree.alive(nameless)
    (tmp_path / "place" / "go").write_text("on\n")
    running.join()
    assert (ended[0].how, ended[0].tail) == ("exit", "on\n")


def test_a_program_that_is_not_there_costs_nothing(tmp_path: Path) -> None:
    """No descriptor stays open."""
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count
    with pytest.raises(FileNotFoundError):
        Dialogue(("/no/such/program",), cwd=tmp_path, env={}, confined=OPEN)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - a count


def test_a_program_may_leave_by_itself(start: Start, tmp_path: Path) -> None:
    """With some patience, a program that ends with its input is not killed."""
    dialogue = start("cat; echo left > left")
    dialogue.end(patience_s=10)
    assert (tmp_path / "left").read_text() == "left\n"
