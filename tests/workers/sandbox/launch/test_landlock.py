import ctypes
import errno
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import TREE

from forgepool.worktrees.git import landlock

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or (landlock.abi() == 0 and os.environ.get("CI") != "true"), reason="there is no Landlock"
)
needs_scopes = pytest.mark.skipif(
    sys.platform != "linux" or (landlock.abi() < 6 and os.environ.get("CI") != "true"), reason="Landlock before ABI 6"
)

CHILD = """
import contextlib, ctypes, errno, fcntl, json, os, signal, socket, sys
project, folder = sys.argv[1:3]
sys.path.insert(0, project)
from forgepool.worktrees.git import landlock

inside, shown, outside = (os.path.join(folder, name) for name in ("inside", "shown", "outside"))
SYSTEM = ["/usr", "/lib", "/lib64", "/bin", "/etc", "/not/there", sys.base_prefix]
found = {}

@contextlib.contextmanager
def attempt(what):
    try:
        yield
        found[what] = "done"
    except OSError as refused:
        found[what] = errno.errorcode[refused.errno]

def write(path, flags=os.O_CREAT):
    with open(os.open(path, os.O_WRONLY | flags), "w") as file:
        file.write("mine")

def read(path):
    with open(path) as file:
        return file.read()
"""


class Ground:
    """A folder to write, one to read, and one for neither."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inside, self.shown, self.outside = (folder / name for name in ("inside", "shown", "outside"))
        for place in (self.inside, self.shown, self.outside):
            (place / "deep").mkdir(parents=True)
            (place / "file").write_text("there before")
            (place / "program").write_text("#!/bin/sh\nexit 0\n")
            (place / "program").chmod(0o755)
        (self.inside / "link").symlink_to(self.outside)

    def confined(self, script: str, *args: str) -> dict[str, str]:
        """Run a script of attempts as a process, and return their outcomes."""
        script = f"{CHILD}\n{script}\nprint(json.dumps(found))"
        argv = [sys.executable, "-I", "-S", "-c", script, str(TREE), str(self.folder), *args]
        ran = subprocess.run(argv, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        assert ran.returncode == 0, ran.stderr
        answer: dict[str, str] = json.loads(ran.stdout)
        return answer


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


@pytest.fixture
def other() -> "Iterator[subprocess.Popen[bytes]]":
    """Start a process of the same user outside."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


FILES = """
if sys.argv[3] == "confined":
    landlock.restrict_files([*SYSTEM, shown], [inside])
os.chdir(inside)

with attempt("write inside"): write("new")
with attempt("write below a folder inside"): write("deep/new")
with attempt("truncate inside"): os.truncate("file", 2)
with attempt("make a folder, link and pipe inside"): (os.mkdir("d"), os.symlink("x", "s"), os.mkfifo("p"))
with attempt("rename across folders inside"): os.rename("new", "deep/renamed")
with attempt("hard link across folders inside"): os.link("file", "deep/linked")
with attempt("remove inside"): (os.unlink("deep/renamed"), os.rmdir("d"))
with attempt("run inside"): assert os.spawnv(os.P_WAIT, "./program", ["program"]) == 0
with attempt("read shown"): read(shown + "/file")
with attempt("list shown"): os.listdir(shown)
with attempt("run shown"): assert os.spawnv(os.P_WAIT, shown + "/program", ["program"]) == 0
with attempt("a UNIX socket inside"):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("socket")
    listener.listen()
    socket.socket(socket.AF_UNIX).connect("socket")
with attempt("read a device"): os.read(os.open("/dev/urandom", os.O_RDONLY), 4)
with attempt("ask a device"):
    with open("/dev/null", "r+b") as null: fcntl.ioctl(null, 0x5401, bytes(64))
with attempt("write to a device"): write("/dev/null", os.O_TRUNC)
with attempt("a shell's redirection to a device"): assert os.system("echo x >/dev/null 2>&1 </dev/null") == 0

with attempt("write shown"): write(shown + "/file")
with attempt("make in shown"): write(shown + "/new")
with attempt("truncate shown"): os.truncate(shown + "/file", 0)
with attempt("truncate outside"): os.truncate(outside + "/program", 0)
with attempt("truncate outside by opening"): os.open(outside + "/program", os.O_RDONLY | os.O_TRUNC)
with attempt("write outside"): write(outside + "/file")
with attempt("make outside"): write(outside + "/new")
with attempt("make by .."): write("../outside/new2")
with attempt("make through a link"): write("link/new3")
with attempt("write through the process' folder"): write("/proc/self/cwd/../outside/new4")
with attempt("read outside"): read(outside + "/file")
with attempt("read through a link"): read("link/file")
with attempt("list outside"): os.listdir(outside)
with attempt("list above"): os.listdir("..")
with attempt("run outside"): os.execv(outside + "/program", ["program"])
with attempt("link in from outside"): os.link(outside + "/file", "stolen")
with attempt("link in from shown"): os.link(shown + "/file", "linked")
with attempt("link out"): os.link("file", outside + "/put")
with attempt("rename in"): os.rename(outside + "/program", "program2")
with attempt("rename out"): os.rename("file", outside + "/put2")
with attempt("rename shown"): os.rename(shown + "/program", shown + "/program2")
with attempt("remove outside"): os.unlink(outside + "/program")
with attempt("remove a folder outside"): os.rmdir(outside + "/deep")
with attempt("make a folder outside"): os.mkdir(outside + "/d")
with attempt("make a link outside"): os.symlink("x", outside + "/s")
with attempt("make a pipe outside"): os.mkfifo(outside + "/p")
with attempt("a socket outside"): socket.socket(socket.AF_UNIX).bind(outside + "/socket")
with attempt("make a device inside"): os.mknod("null", 0o20666, os.makedev(1, 3))
with attempt("make a block device inside"): os.mknod("disk", 0o60666, os.makedev(7, 0))
with attempt("another device"): os.open("/dev/tty0" if os.path.exists("/dev/tty0") else "/dev/ptmx", os.O_RDWR)
"""


def test_files_are_changed_inside_and_read_where_shown_and_nothing_else(ground: Ground) -> None:
    """The place of a file counts, whether it is reached by path, link, rename or open folder."""
    found = ground.confined(FILES, "confined")
    allowed = [name for name, answer in found.items() if answer == "done"]
    refused = {name: answer for name, answer in found.items() if answer != "done"}
    assert list(found).index("write to a device") == 14
    assert allowed == [
        "write inside",
        "write below a folder inside",
        "truncate inside",
        "make a folder, link and pipe inside",
        "rename across folders inside",
        "hard link across folders inside",
        "remove inside",
        "run inside",
        "read shown",
        "list shown",
        "run shown",
        "a UNIX socket inside",
        "read a device",
        "write to a device",
        "a shell's redirection to a device",
    ]
    assert refused.pop("ask a device") == "ENOTTY"
    # Without privilege no device can be made, so another reason comes first.
    assert {refused.pop("make a device inside"), refused.pop("make a block device inside")} <= {"EACCES", "EPERM"}
    assert len(refused) == 28
    assert set(refused.values()) <= {"EACCES", "EXDEV"}
    assert sorted(path.name for path in ground.outside.iterdir()) == ["deep", "file", "program"]
    assert (ground.outside / "file").read_text() == (ground.shown / "file").read_text() == "there before"


def test_the_attempts_succeed_without_landlock(ground: Ground) -> None:
    """
    Otherwise their refusal would prove nothing. Running a program is left out here, because it replaces the process.
    """
    script = FILES.replace('os.execv(outside + "/program", ["program"])', "pass")
    found = ground.confined(script, "open")
    for follows_or_varies in ("truncate outside by opening", "remove outside", "ask a device"):
        found.pop(follows_or_varies)
    for privileged in ("another device", "make a device inside", "make a block device inside"):
        found.pop(privileged)
    assert set(found.values()) == {"done"}


SIGNALS = """
other = int(sys.argv[3])
waits, open_while_alive = os.pipe()

def fork():
    pid = os.fork()
    if pid == 0:
        os.close(open_while_alive)
        os._exit(os.read(waits, 1) != b"")
    return pid

inner = fork()
with attempt("signal before"): os.kill(other, 0)
{restrict}
with attempt("signal outside"): os.kill(other, 0)
with attempt("end outside"): os.kill(other, signal.SIGKILL)
with attempt("signal by descriptor"): signal.pidfd_send_signal(os.pidfd_open(other), 0)
with attempt("abstract socket"): socket.socket(socket.AF_UNIX).connect("\\0" + sys.argv[4])
with attempt("abstract datagram"): socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"", "\\0" + sys.argv[5])
with attempt("own abstract socket"):
    own = socket.socket(socket.AF_UNIX)
    own.bind("\\0" + sys.argv[4] + "own")
    own.listen()
    socket.socket(socket.AF_UNIX).connect("\\0" + sys.argv[4] + "own")
mine = fork()
with attempt("signal a child"): os.kill(mine, signal.SIGKILL)
with attempt("write outside"): write(outside + "/file")
with attempt("rename across folders"): os.rename(outside + "/file", inside + "/moved")
os.waitpid(mine, 0)
with attempt("signal one from before"): os.kill(inner, 0)
"""


@needs_scopes
@pytest.mark.parametrize("restrict", ["landlock.restrict_scope()", "landlock.restrict_files(SYSTEM, [inside])"])
def test_signals_and_abstract_sockets_stay_inside(
    ground: Ground, restrict: str, other: "subprocess.Popen[bytes]"
) -> None:
    """Both restrictions do this. The first does not restrict files, renames and links."""
    stream, datagram = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with stream, datagram:
        # The kernel finds a free name for an empty one.
        stream.bind("")
        stream.listen()
        datagram.bind("")
        names = [name[1:].decode() for name in (stream.getsockname(), datagram.getsockname())]
        found = ground.confined(SIGNALS.replace("{restrict}", restrict), str(other.pid), *names)
    alive = other.poll() is None
    files = "done" if "scope" in restrict else "EACCES"
    assert alive
    assert found == {
        "signal before": "done",
        "signal outside": "EPERM",
        "end outside": "EPERM",
        "signal by descriptor": "EPERM",
        "abstract socket": "EPERM",
        "abstract datagram": "EPERM",
        "own abstract socket": "done",
        "signal a child": "done",
        "write outside": files,
        "rename across folders": files,
        "signal one from before": "EPERM",
    }


@pytest.mark.skipif(sys.platform != "linux" or landlock.abi() < 4, reason="Landlock before ABI 4")
def test_tcp_ports_are_given_up_with_the_files(ground: Ground) -> None:
    """No port can be bound or connected. Other sockets are left to the filter."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = ground.confined(
            """
landlock.restrict_files(SYSTEM, [inside])
with attempt("connect"): socket.create_connection(("127.0.0.1", int(sys.argv[3])))
with attempt("bind"): socket.socket().bind(("127.0.0.1", 0))
""",
            str(server.getsockname()[1]),
        )
    assert found == {"connect": "EACCES", "bind": "EACCES"}


LOOKING = """

if os.getuid() == 0:
    os.setresuid(*[int(sys.argv[4])] * 3)
    landlock.prctl(4, 1, otherwise="PR_SET_DUMPABLE")
with attempt("environment before"): read(f"/proc/{sys.argv[3]}/environ")
landlock.restrict_files([*SYSTEM, "/proc"], [])
with attempt("own environment"): read("/proc/self/environ")
with attempt("environment"): read(f"/proc/{sys.argv[3]}/environ")
with attempt("folder"): os.listdir(f"/proc/{sys.argv[3]}/cwd")
"""


def test_other_processes_cannot_be_looked_into(ground: Ground) -> None:
    """A user's processes can read each other's environment, but a confined one cannot. Root always can."""
    user = os.getuid() or 65534
    with subprocess.Popen(["sleep", "60"], env={"SECRET": "x"}, cwd="/", user=user) as other:
        found = ground.confined(LOOKING, str(other.pid), str(user))
        other.kill()
    assert found == {
        "environment before": "done",
        "own environment": "done",
        "environment": "EACCES",
        "folder": "EACCES",
    }


def test_a_restriction_cannot_be_widened_and_holds_for_programs(ground: Ground) -> None:
    """Later rules do not bring rights back, and neither does exec."""
    found = ground.confined("""
landlock.restrict_files(SYSTEM, [inside])
landlock.restrict_files([*SYSTEM, outside], [folder])
with attempt("write inside"): write(inside + "/file")
with attempt("write outside"): write(outside + "/file")
with attempt("by a program"): assert os.system(f"echo x >>{outside}/file 2>&-") == 0 or os.open(outside + "/file", 0)
""")
    assert found == {"write inside": "done", "write outside": "EACCES", "by a program": "EACCES"}


@pytest.mark.parametrize("writable", ["inside/link", "inside/link/deep", "outside/missing", "inside/file/x"])
def test_a_writable_path_must_lead_where_it_says(ground: Ground, writable: str) -> None:
    """Another process may have made it a link, whose target is not made writable."""
    found = ground.confined(
        """
try:
    landlock.restrict_files(SYSTEM, [inside, os.path.join(folder, sys.argv[3])])
except OSError as refused:
    found["said"] = str(refused)
with attempt("write outside"): write(outside + "/file")
""",
        writable,
    )
    number = errno.ELOOP if "link" in writable else errno.ENOTDIR if "file" in writable else errno.ENOENT
    named = f"{ground.folder}/{writable} cannot be made writable; it must be a real path, without links"
    assert found == {"said": f"[Errno {number}] {named}: {os.strerror(number)}", "write outside": "done"}


def test_single_files_may_be_shown_and_written(ground: Ground) -> None:
    """Rights of folders are left out of a file's rule, because the kernel would refuse it."""
    found = ground.confined("""
free = [os.dup(0) for _ in range(9)]
for number in free: os.close(number)
landlock.restrict_files([*SYSTEM, shown + "/file", os.fsencode(inside) + b"/none"], [inside + "/file"])
with attempt("read"): read(shown + "/file")
with attempt("write"): write(inside + "/file")
with attempt("write beside"): write(inside + "/other")
with attempt("read beside"): read(shown + "/program")
with attempt("no descriptor is left"): assert [os.dup(0) for _ in free] == free
""")
    assert found.pop("no descriptor is left") == "done"
    assert found == {"read": "done", "write": "done", "write beside": "EACCES", "read beside": "EACCES"}


@pytest.mark.skipif(landlock.abi() < 5, reason="Landlock before ABI 5")
def test_what_is_writable_is_not_for_asking_devices(ground: Ground) -> None:
    """Only `devices` allow it. A device in a writable folder can only be written."""
    found = ground.confined("""
landlock.restrict_files(SYSTEM, [inside, "/dev/null"], devices=())
with attempt("write"): write("/dev/null")
with attempt("ask"):
    with open("/dev/null", "r+b") as null: fcntl.ioctl(null, 0x5401, bytes(64))
with attempt("a device not named"): os.open("/dev/zero", os.O_RDONLY)
""")
    assert found == {"write": "done", "ask": "EACCES", "a device not named": "EACCES"}


@pytest.mark.parametrize("level", range(1, 10))
def test_the_kernel_knows_exactly_what_its_abi_gives_up(level: int) -> None:
    """The ruleset of an ABI is accepted by kernels of that ABI or later ones, and refused by earlier ones."""
    files, tcp, scopes = landlock.find_handled_rights(level)
    attributes = ctypes.create_string_buffer(struct.pack("=QQQ", files, tcp, scopes), 24)
    try:
        os.close(landlock.call(444, ctypes.addressof(attributes), 24, 0, otherwise="not taken"))
        taken = True
    except OSError:
        taken = False
    assert taken == (
        level <= landlock.abi() or landlock.find_handled_rights(level) == landlock.find_handled_rights(landlock.abi())
    )


@pytest.mark.parametrize(
    ("level", "files", "tcp", "scopes", "unheld"),
    [
        (1, 13, 0, 0, 4),
        (2, 14, 0, 0, 4),
        (3, 15, 0, 0, 3),
        (4, 15, 3, 0, 3),
        (5, 16, 3, 0, 3),
        (6, 16, 3, 3, 1),
        (7, 16, 3, 3, 1),
        (9, 17, 3, 3, 0),
        (12, 17, 3, 3, 0),
    ],
)
def test_older_kernels_hold_less_and_what_is_told(level: int, files: int, tcp: int, scopes: int, unheld: int) -> None:
    """Each ABI restricts what it knows, and the missing parts are listed in words."""
    assert landlock.find_handled_rights(level) == (2**files - 1, tcp, scopes)
    assert len(landlock.unheld(level)) == unheld


def test_a_process_that_may_make_no_ruleset_is_told(ground: Ground) -> None:
    """Without Landlock both functions raise with one sentence, so no process wrongly believes it is confined."""
    found = ground.confined("""
import ctypes, struct
from forgepool.workers.sandbox.launch import seccomp
# As a kernel without Landlock: its calls do not exist.
number, allow, enosys = (0x20, 0, 0, 0), (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050026)
filter_ = [number, (0x35, 0, 2, 444), (0x25, 1, 0, 446), enosys, allow]
seccomp.install(b"".join(struct.pack("<HBBI", *instruction) for instruction in filter_))
found["abi"] = str(landlock.abi())
for restrict in (landlock.restrict_scope, lambda: landlock.restrict_files(SYSTEM, [inside])):
    try:
        restrict()
    except OSError as refused:
        found[str(refused.errno)] = found.get(str(refused.errno), "") + refused.strerror + ". "
""")
    missing = "it has no Landlock, or it is switched off; ABI"
    assert found == {
        "abi": "0",
        str(errno.ENOSYS): f"the kernel cannot confine signals and abstract sockets: {missing} 6 or later is needed. "
        f"the kernel cannot confine files: {missing} 1 or later is needed. ",
    }


def test_a_process_of_another_session_is_still_ours_to_end(ground: Ground) -> None:
    """The harness outside can signal what is inside; only the reverse is forbidden."""
    script = f"{CHILD}\nlandlock.restrict_files(SYSTEM, [inside])\nprint('ready', flush=True)\nsignal.pause()"
    argv = [sys.executable, "-I", "-S", "-c", script, str(TREE), str(ground.folder)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.terminate()
        assert child.wait(timeout=10) == -signal.SIGTERM
