import os
import resource
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from daemons import daemon_in, lives, until_there

from forgepool.workers.sandbox import tree
from forgepool.workers.sandbox.launch import launch
from forgepool.workers.sandbox.run.process import Ended
from forgepool.workers.schema.confinement import Level

Sh = Callable[..., Ended]
Find = Callable[[str], list[int]]
OPEN_ONLY = pytest.mark.parametrize("level", ["off"], indirect=True)

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="process trees are seen on Linux")


def test_a_command_answers_with_its_status_and_both_outputs(sh: Sh) -> None:
    """Both outputs are interleaved in order, in the answer and in the log."""
    ended = sh("echo one; echo two >&2; exit 3")
    assert (ended.how, ended.status, ended.tail, ended.head) == ("exit", 3, "one\ntwo\n", "")
    assert ended.log.read_text() == "one\ntwo\n"
    assert not ended.succeeded


def by_signal(level: Level, number: int) -> int:
    """Return the status of a command ended by a signal; a confined one's supervisor reports it as a shell does."""
    return -number if level == "off" else 128 + number


def test_a_command_ended_by_a_signal_says_so(sh: Sh, level: Level) -> None:
    """A signal differs from the exit status 9."""
    ended = sh("kill -9 $$")
    assert (ended.how, ended.status) == ("exit", by_signal(level, signal.SIGKILL))


def test_a_command_sees_only_the_environment_it_is_given(sh: Sh) -> None:
    """It inherits nothing of the caller's environment. Only the command's mark is added."""
    names = {line.split("=")[0] for line in sh("env").tail.splitlines()}
    assert names <= {"PATH", "FORGEPOOL_COMMAND", "PWD", "OLDPWD", "SHLVL", "_"}


def test_a_command_has_no_input(sh: Sh) -> None:
    """Reading standard input ends at once."""
    assert sh("cat; echo $?").tail == "0\n"


def test_a_command_reads_the_file_it_is_given(sh: Sh, tmp_path: Path) -> None:
    """Its input is the whole file, and then ends."""
    (tmp_path / "input").write_bytes(b"x" * 300_000)
    assert sh("cat | wc -c; cat; echo end", stdin=tmp_path / "input").tail == "300000\nend\n"


def test_output_is_heard_as_it_comes(sh: Sh, tmp_path: Path) -> None:
    """All of it is passed on during the run, including what the log drops."""
    heard: list[bytes] = []
    ended = sh("echo one; exec sleep 60", stop=lambda: b"".join(heard) == b"one\n", hear=heard.append)
    assert ended.how == "stopped"
    heard.clear()
    ended = sh("head -c 300000 /dev/zero", keep_bytes=1000, hear=heard.append)
    assert (sum(map(len, heard)), ended.dropped_bytes > 0) == (300_000, True)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"argv": ("no-such-program-here",)}, "program 'no-such-program-here': No such file"),
        ({"argv": ()}, "program ''"),
        ({"argv": ("/",)}, "program '/': Permission denied"),
        ({"argv": ("true", "a\0b")}, "embedded null byte"),
        ({"stdin": Path("/no/such/file")}, "file /no/such/file: not there"),
        ({"cwd": Path("/no/such/folder")}, "folder /no/such/folder: not there"),
        ({"log": Path("/dev/null/log")}, "log /dev/null/log: "),
    ],
)
def test_a_command_that_cannot_start_says_why(sh: Sh, given: dict[str, object], why: str) -> None:
    """No exception is raised: the answer has a sentence."""
    ended = sh("true", **given)
    assert (ended.how, ended.status) == ("not_started", None)
    assert why in ended.tail


def test_no_variable_adds_to_what_a_command_may(sh: Sh, tmp_path: Path) -> None:
    """bwrap's arguments are separated by null bytes."""
    ended = sh("ls /leak", env={"PATH": "/usr/bin:/bin", "X": f"\0--ro-bind\0{tmp_path}\0/leak"})
    assert ended.how == "not_started"
    assert "null byte" in ended.tail


def test_few_descriptors_are_enough_to_start(sh: Sh) -> None:
    """Some hosts have `ulimit -Sn 256`."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    launch.release(())
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, before[1]), before[1]))
    try:
        assert sh("true").succeeded
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_start_that_fails_leaves_no_descriptor_open(sh: Sh) -> None:
    """A successful start leaves none open either."""
    sh("true")
    before = len(list(Path("/proc/self/fd").iterdir()))
    sh("true")
    sh("true", argv=("no-such-program-here",))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_hang_ends_at_its_time_limit(sh: Sh, level: Level) -> None:
    """SIGTERM is enough for this program."""
    ended = sh("echo begun; exec sleep 60", timeout_s=0.5)
    assert (ended.how, ended.status, ended.tail) == ("timeout", by_signal(level, signal.SIGTERM), "begun\n")
    assert ended.seconds < 10


def test_a_command_that_ignores_the_polite_signal_is_killed(sh: Sh) -> None:
    """SIGKILL follows two seconds after SIGTERM."""
    ended = sh("trap '' TERM; while :; do sleep 0.1; done", timeout_s=0.2)
    assert (ended.how, ended.status) == ("timeout", -signal.SIGKILL)
    assert ended.seconds < 20


def test_a_command_may_speak_its_last_words(sh: Sh) -> None:
    """Output between SIGTERM and the end is kept, and the outcome is still a timeout."""
    ended = sh("trap 'echo last words; exit 0' TERM; sleep 60 & wait", timeout_s=0.3)
    assert (ended.how, ended.status, ended.tail) == ("timeout", 0, "last words\n")


def test_silence_ends_a_command(sh: Sh) -> None:
    """A command that prints nothing for its idle limit counts as hung."""
    ended = sh("echo once; exec sleep 60", idle_s=0.3)
    assert (ended.how, ended.tail) == ("idle", "once\n")
    assert ended.seconds < 10


def test_output_keeps_a_command_from_being_idle(sh: Sh) -> None:
    assert sh("for i in $(seq 14); do echo $i; sleep 0.1; done", idle_s=1.0).how == "exit"


def test_a_changed_file_keeps_a_command_from_being_idle(sh: Sh, tmp_path: Path) -> None:
    """A change anywhere in the watched folder counts, even with an old date."""
    script = "mkdir -p a/b; for i in $(seq 14); do touch -d 2001-01-01 a/b/c; sleep 0.1; done"
    assert sh(script, idle_s=1.0, watch=tmp_path / "place").how == "exit"
    assert sh("exec sleep 60", idle_s=0.4, watch=tmp_path / "place").how == "idle"


def test_stop_ends_a_command(sh: Sh) -> None:
    asked = threading.Event()
    threading.Timer(0.3, asked.set).start()
    ended = sh("exec sleep 60", stop=asked.is_set)
    assert ended.how == "stopped"
    assert ended.seconds < 10


def test_an_exception_in_stop_leaves_nothing_alive(sh: Sh, marked: Find) -> None:
    """A soft time limit is raised right through `run()`, which ends the command first."""

    def stop() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sh("sleep 60 & sleep 60", stop=stop, env={"PATH": os.environ["PATH"], "WHOSE": "raised"})
    assert marked("WHOSE=raised") == []


def test_a_flood_of_output_costs_its_bound_and_no_more(sh: Sh) -> None:
    """A gigabyte is read without blocking. The log stays within its limit and has both ends."""
    script = "echo first; head -c 1000000000 /dev/zero; echo last"
    ended = sh(script, keep_bytes=4 * 1024 * 1024)
    assert (ended.how, ended.status, ended.output_bytes) == ("exit", 0, 1_000_000_011)
    assert ended.log.stat().st_size <= 4 * 1024 * 1024
    assert ended.head.startswith("first\n")
    assert ended.tail.endswith("last\n")
    log = ended.log.read_bytes()
    assert b"bytes are missing here]" in log
    assert log.endswith(b"last\n")


def test_a_command_that_closes_its_output_is_waited_for(sh: Sh) -> None:
    """The end of the output is not the end of the command."""
    ended = sh("exec >&- 2>&-; sleep 0.3; exit 7")
    assert (ended.how, ended.status) == ("exit", 7)
    assert ended.seconds >= 0.3


def test_a_grandchild_that_holds_the_output_does_not_hang_run(sh: Sh, marked: Find) -> None:
    """Processes left behind end with the command, although they have the pipe open."""
    ended = sh("(sleep 60; echo late) & echo done", env={"PATH": os.environ["PATH"], "WHOSE": "holder"})
    assert (ended.how, ended.status, ended.tail) == ("exit", 0, "done\n")
    assert ended.seconds < 10
    assert marked("WHOSE=holder") == []


@pytest.mark.parametrize("wiped", ["", "env -i PATH=$PATH "])
def test_a_daemon_dies_with_its_command(sh: Sh, place: Path, wiped: str) -> None:
    """It forked twice into its own session, with or without its environment."""
    ended = sh(f"{wiped}{daemon_in(place)}")
    assert (ended.how, ended.status) == ("exit", 0), ended.tail
    assert not lives(place / "daemon")


def test_two_hundred_sessions_die_with_their_command(sh: Sh, marked: Find) -> None:
    """Each child has its own session, so no process group contains them. No zombie is left."""
    before = tree.children(os.getpid())
    script = "for i in $(seq 200); do setsid sleep 60 & done; exit 4"
    ended = sh(script, env={"PATH": os.environ["PATH"], "WHOSE": "sessions"})
    assert (ended.how, ended.status, ended.left) == ("exit", 4, ())
    assert marked("WHOSE=sessions") == []
    # A process left by an earlier test may become ours in the meantime.
    new = [tree.stat(one) for one in tree.children(os.getpid()) if one not in before]
    assert [one for one in new if one is not None and one.state == "Z"] == []


def test_processes_that_keep_forking_are_overtaken(sh: Sh, marked: Find) -> None:
    """They make new sessions as fast as they can."""
    forker = "while :; do setsid sleep 60 & sleep 0.002; done"
    script = f'for i in 1 2 3 4 5; do setsid sh -c "{forker}" & done; sleep 0.3; exit 0'
    ended = sh(script, env={"PATH": os.environ["PATH"], "WHOSE": "forkers"})
    assert (ended.how, ended.left) == ("exit", ())
    assert marked("WHOSE=forkers") == []


def test_the_callers_other_children_are_left_alone(sh: Sh) -> None:
    """Live and dead children, with their descendants and sessions, are neither killed nor reaped."""
    with (
        subprocess.Popen(["sleep", "60"]) as plain,
        subprocess.Popen(["sh", "-c", "sleep 60 & wait"], start_new_session=True) as session,
        subprocess.Popen(["sh", "-c", "exit 5"]) as dead,
    ):
        while not tree.children(session.pid):
            os.sched_yield()
        below = tree.descendants(session.pid)
        assert sh("setsid sleep 60 & exit 0").status == 0
        assert plain.poll() is None
        assert session.poll() is None
        assert all(tree.alive(pid) for pid in below)
        assert dead.wait() == 5
        tree.kill_tree([plain.pid, session.pid])


def test_a_child_started_meanwhile_by_another_thread_is_left_alone(sh: Sh) -> None:
    """The caller starts it in its own session while a command runs."""
    started: list[subprocess.Popen[bytes]] = []

    def stop() -> bool:
        if not started:
            started.append(subprocess.Popen(["sleep", "60"]))
        return False

    assert sh("sleep 0.3; setsid sleep 60 & exit 0", stop=stop).status == 0
    with started[0] as child:
        assert child.poll() is None
        child.kill()


def test_commands_in_two_threads_end_only_their_own(sh: Sh, place: Path, tmp_path: Path) -> None:
    """The end of one command does not touch the daemons of the other."""
    script = f"{daemon_in(place)}; until [ -e end ]; do sleep 0.02; done"
    first = threading.Thread(target=sh, args=(script,), kwargs={"log": tmp_path / "first.log"})
    first.start()
    until_there(place / "daemon")
    assert sh("setsid sleep 60 & exit 6").status == 6
    assert lives(place / "daemon")
    (place / "end").touch()
    first.join()
    assert not lives(place / "daemon")


def test_a_lost_exit_status_is_not_success(sh: Sh) -> None:
    """If the caller ignores SIGCHLD, the kernel drops the status, and the answer says that it is unknown."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        ended = sh("exit 1")
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert (ended.how, ended.status, ended.succeeded) == ("exit", None, False)


def test_ignored_signals_are_not_passed_on(sh: Sh, level: Level) -> None:
    """A pool process ignores SIGINT, and its commands can still be interrupted."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ended = sh("kill -INT $$; echo survived")
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert (ended.status, ended.tail) == (by_signal(level, signal.SIGINT), "")


@OPEN_ONLY
def test_descriptors_are_passed_on_only_when_named(sh: Sh) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        assert sh(f"echo x >/dev/fd/{writing}").status != 0
        assert sh(f"echo passed >/dev/fd/{writing}", pass_fds=(writing,)).status == 0
        assert os.read(reading, 100) == b"passed\n"
    finally:
        os.close(reading)
        os.close(writing)
