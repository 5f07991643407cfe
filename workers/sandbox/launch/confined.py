"""The first process of a confined command: what the launcher is asked to start, for each level."""

import contextlib
import functools
import json
import os
import secrets
import signal
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from forgepool.workers.sandbox.launch import readable_paths, seatbelt, seccomp
from forgepool.workers.sandbox.launch.launch import NotLaunched, launch, open_listeners
from forgepool.workers.sandbox.launch.launcher import FIRST_EXTRA
from forgepool.workers.sandbox.launch.readable_paths import PROCESSORS, SYSTEM, WRITTEN_ETC, etc
from forgepool.workers.schema.confinement import Bounds, Confinement
from forgepool.worktrees.git.beneath import Beneath

_HOSTS = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 {}\n"
_USER, _UID = "runner", 1001
"""The user that commands see, as on ordinary CI: code that knows this sandbox by it would know CI by it as well."""
_TMP = ("/tmp", "/var/tmp")
_NAMES = "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"


def arguments(
    confined: Confinement, env: Mapping[str, str], cwd: Path, *, tools: Sequence[Path], numbers: Mapping[str, int]
) -> list[str]:
    """
    Return bwrap's arguments for a command.

    `numbers` maps the descriptors that bwrap gets by name: `seccomp`, `status`, `block` with ports, and the files of
    `make_etc_files` and `list_copied_files`.
    """
    return [
        *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
        *("--unshare-cgroup-try", "--hostname", _host_name(), "--die-with-parent", "--cap-drop", "ALL"),
        *("--uid", str(_UID), "--gid", str(_UID)),
        *("--seccomp", str(numbers["seccomp"]), "--json-status-fd", str(numbers["status"])),
        *(("--block-fd", str(numbers["block"])) if "block" in numbers else ()),
        "--clearenv",
        *(word for name, value in env.items() for word in ("--setenv", name, value)),
        *_system(),
        *_etc(numbers),
        *("--dir", "/run", "--dir", "/var", "--symlink", "../tmp", "/var/tmp"),
        *("--proc", "/proc", "--dev", "/dev", "--ro-bind-try", PROCESSORS, PROCESSORS),
        *("--perms", "1777", "--size", str(confined.bounds.shared_bytes), "--tmpfs", "/dev/shm"),
        *_folders(confined, tools),
        *("--remount-ro", "/", "--chdir", str(cwd)),
    ]


def make_etc_files(confined: Confinement) -> dict[str, str]:
    """Return the contents of the files of `/etc` that describe only the command itself, by name."""
    home = confined.home or Path("/")
    return {
        "passwd": f"{_USER}:x:{_UID}:{_UID}:{_USER}:{home}:/bin/sh\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
        "group": f"{_USER}:x:{_UID}:\nnogroup:x:65534:\n",
        "hosts": _HOSTS.format(_host_name()),
        "nsswitch.conf": _NAMES,
        "resolv.conf": "",
    }


@functools.cache
def _host_name() -> str:
    """Return a name such as containers have, another one in each process of the harness."""
    return secrets.token_hex(6)


def list_copied_files() -> tuple[str, ...]:
    """List the files of the host's `/etc` that bwrap gets as open descriptors, by name."""
    _, _, files = _etc_kinds()
    return files


@functools.cache
def _system() -> tuple[str, ...]:
    words: list[str] = []
    for name in SYSTEM:
        path = Path(name)
        if path.is_symlink():
            words += ("--symlink", str(path.readlink()), name)
        elif path.is_dir():
            words += ("--ro-bind", name, name)
    return tuple(words)


@functools.cache
def _etc_kinds() -> tuple[tuple[tuple[str, str], ...], tuple[str, ...], tuple[str, ...]]:
    """Return the links into the system's folders with their targets, the folders, and the names of the files."""
    links: list[tuple[str, str]] = []
    folders: list[str] = []
    files: list[str] = []
    for path in etc():
        real = os.path.realpath(path)
        if path.is_symlink() and real.startswith(tuple(f"{each}/" for each in SYSTEM)):
            links.append((str(path), real))
        elif path.is_dir():
            folders.append(str(path))
        elif path.is_file():
            files.append(path.name)
    return tuple(links), tuple(folders), tuple(files)


def _etc(numbers: Mapping[str, int]) -> Iterator[str]:
    """
    Yield the arguments for `/etc`. Its root becomes read-only at the end, so files need no mounts, which cost time
    each.
    """
    yield from ("--perms", "0755", "--dir", "/etc")
    links, folders, _ = _etc_kinds()
    for link, target in links:
        yield from ("--symlink", target, link)
    for folder in folders:
        yield from ("--ro-bind-try", folder, folder)
    for name in (*WRITTEN_ETC, *list_copied_files()):
        yield from ("--perms", "0644", "--file", str(numbers[name]), f"/etc/{name}")


def _folders(confined: Confinement, tools: Sequence[Path]) -> Iterator[str]:
    """Yield the mounts from the top down, so that none covers an earlier one; `/tmp` comes first."""
    if confined.tmp is None:
        yield from ("--perms", "1777", "--size", str(confined.bounds.shared_bytes), "--tmpfs", "/tmp")
    else:
        yield from ("--bind", str(confined.tmp), "/tmp")
    how = {path: ("--ro-bind", path) for path in (*tools, *confined.readable)}
    how |= {path: ("--bind", path) for path in confined.writable}
    how |= {path: ("--ro-bind", path) for path in confined.protected}
    how |= {place: ("--ro-bind", source) for source, place in confined.mounted}
    above = [] if confined.tmp is None else _in_own_tmp(how)
    for folder in above:
        yield from ("--perms", "0755", "--tmpfs", folder)
    for path in sorted(how):
        option, source = how[path]
        yield from (option, str(source), str(path))
    for folder in above:
        yield from ("--remount-ro", folder)


def _in_own_tmp(bound: Iterable[Path]) -> list[str]:
    """
    List the folders directly in the command's `/tmp` that hold other mounts.

    If these belonged to the command, it could put a link in their place. At the next start bwrap would follow it, also
    through the host's root, and make folders at its end.
    """
    found = {(above, *path.relative_to(above).parts) for path in bound for above in _TMP if path.is_relative_to(above)}
    itself = {each for each in found if len(each) == 2}
    return ["/".join(each) for each in sorted({each[:2] for each in found} - itself) if len(each) > 1]


if TYPE_CHECKING:
    from forgepool.workers.sandbox.launch.launcher import Request

_STATUS_BYTES = 64 * 1024
_PROGRAMS = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap")
"""Only the system's own: the first `bwrap` on a user's PATH may be anything."""
_READABLE = (
    *readable_paths.SYSTEM,
    *(f"/etc/{name}" for name in readable_paths.WRITTEN_ETC),
    *readable_paths.ASKED_ETC,
    "/proc",
    readable_paths.PROCESSORS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStart:
    """A program to run, apart from its confinement."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    """The complete environment, including the mark."""
    mark: Mapping[str, str]
    """The mark alone: bwrap itself gets nothing else of the environment."""
    standard: tuple[int, int, int]
    trace: int | None = None
    """A socket that gets what hears of the command's look-ups; only with `bubblewrap`."""


class Held:
    """The open ends of a running bubblewrap: its status messages and the command's network outlet."""

    def __init__(self, status: int, confined: Confinement) -> None:
        self._status = FileIO(status, "rb")
        self._outlet = confined.outlet
        self._groups = confined.groups
        self._listeners: tuple[socket.socket, ...] = ()
        self._said = b""

    def let_out(self, go: FileIO) -> None:
        """
        Listen in the command's network, then let the command run.

        Raises:
            OSError: bwrap has ended, or listening is not possible there.
        """
        if self._outlet is not None:
            self._listeners = open_listeners(self._namespace(), self._outlet.ports, self._groups)
            self._outlet.serve(self._listeners)
        go.write(b"x")

    def began(self) -> bool:
        """Did the command itself run to its end? Ask only after bwrap has ended."""
        os.set_blocking(self._status.fileno(), False)
        while piece := self._status.read(_STATUS_BYTES):
            self._said += piece
        return b'"exit-code"' in self._said

    def close(self) -> None:
        self._status.close()
        if self._outlet is not None:
            self._outlet.release(self._listeners)

    def _namespace(self) -> int:
        """Return the pid of the first process in the command's namespaces, which bwrap reports at once."""
        while b"\n" not in self._said and (piece := self._status.read(_STATUS_BYTES)):
            self._said += piece
        if not self._said:
            raise NotLaunched(0, "bubblewrap ended before the command began")
        return int(json.loads(self._said.partition(b"\n")[0])["child-pid"])


def start_confined(start: ProcessStart, confined: Confinement) -> tuple[int, Held | None]:
    """
    Start a confined program; return the pid of its first process, a child of this one, and what to keep with it.

    Raises:
        OSError: it could not be confined as requested; nothing runs.
    """
    tools = _tools(start, confined)
    if confined.level == "bubblewrap":
        return _by_bubblewrap(start, confined, tools)
    if confined.level != "landlock":
        raise NotLaunched(0, f"nothing here confines a command by {confined.level}")
    if confined.outlet is not None:
        raise NotLaunched(0, "hosts are granted to it, which only bubblewrap can do; install bubblewrap")
    request = _request(start.argv, start.env, start.cwd, confined, tools)
    readable = [*_READABLE, *map(str, (*readable_paths.etc(), *tools, *confined.readable, *confined.writable))]
    request["files"] = {"readable": readable, "writable": [str(each) for each in confined.writable]}
    return launch(request, start.standard, confined.groups), None


def under_seatbelt(argv: Sequence[str], env: Mapping[str, str], cwd: Path, confined: Confinement) -> tuple[str, ...]:
    """Return the command line that runs a command in macOS' sandbox, which needs no preparation."""
    start = ProcessStart(argv=tuple(argv), cwd=cwd, env=env, mark={}, standard=(0, 1, 2))
    folders = (_tools(start, confined), confined.readable, confined.writable, confined.protected)
    tools, readable, writable, protected = ([os.path.realpath(each) for each in some] for some in folders)
    rules = seatbelt.profile(readable=[*tools, *readable], writable=writable, protected=protected, proxy_port=None)
    return tuple(seatbelt.argv(rules, argv))


def _tools(start: ProcessStart, confined: Confinement) -> tuple[Path, ...]:
    """List the folders of programs: those of the PATH, the program's own, and toolchains."""
    entries = [*start.env.get("PATH", "").split(os.pathsep), os.path.dirname(start.argv[0])]  # noqa: PTH120 - text
    # What commands can change does not say what they see: a link there could lead to a folder of the user's.
    looked_in = os.pathsep.join(each for each in entries if not _lies_in(each, confined.writable))
    own = (*confined.writable, *confined.readable)
    return tuple(
        folder
        for folder in readable_paths.outermost((*readable_paths.tool_folders(looked_in), *confined.tools))
        if not any(folder.is_relative_to(each) for each in own)
    )


def _lies_in(entry: str, folders: Sequence[Path]) -> bool:
    """Is the path, as named or as resolved, inside one of the folders?"""
    named = os.path.normpath(entry)
    return any(
        path == name or path.startswith(f"{name}/")
        for path in (named, os.path.realpath(named))
        for name in map(str, folders)
    )


def bubblewrap_program() -> str | None:
    return next((each for each in _PROGRAMS if os.access(each, os.X_OK)), None)


def _by_bubblewrap(start: ProcessStart, confined: Confinement, tools: Sequence[Path]) -> tuple[int, Held]:
    program = bubblewrap_program()
    if program is None:
        raise NotLaunched(0, "bubblewrap is not installed any more; install it again")
    confined = replace(confined, mounted=tuple(_mountable(confined)))
    texts = {"seccomp": _filter()} | {name: text.encode() for name, text in make_etc_files(confined).items()}
    copied = list_copied_files()
    traced = [] if start.trace is None else ["trace"]
    names = ["args", "status", *(["block"] if confined.outlet else []), *texts, *copied, *traced]
    numbers = {name: FIRST_EXTRA + place for place, name in enumerate(names)}
    words = arguments(confined, start.env, start.cwd, tools=tools, numbers=numbers)
    if any("\0" in word for word in words):  # what follows it would be another of bwrap's arguments
        raise NotLaunched(0, "its environment holds a null byte")
    texts["args"] = os.fsencode("\0".join((*words, "")))
    argv = (program, "--args", str(numbers["args"]), "--", *start.argv)
    request = _request(argv, start.mark, Path("/"), confined, tools)
    if start.trace is not None:
        request["trace"] = numbers["trace"]
    with contextlib.ExitStack() as closing, contextlib.ExitStack() as failing:
        given = {name: closing.enter_context(_file(text)) for name, text in texts.items()}
        given |= {name: closing.enter_context(FileIO(f"/etc/{name}")) for name in copied}
        status, given["status"] = (closing.enter_context(end) for end in _pipe())
        held = Held(os.dup(status.fileno()), confined)
        failing.callback(held.close)
        go = None
        if confined.outlet is not None:
            given["block"], go = (closing.enter_context(end) for end in _pipe())
        if start.trace is not None:
            given["trace"] = closing.enter_context(FileIO(os.dup(start.trace)))
        descriptors = [*start.standard, *(given[name].fileno() for name in names)]
        pid = launch(request, descriptors, confined.groups)
        given["status"].close()
        if go is not None:
            failing.callback(_kill, pid)
            held.let_out(go)
        failing.pop_all()
    return pid, held


def _mountable(confined: Confinement) -> Iterator[tuple[Path, Path]]:
    """
    Yield the mounts whose place is a folder, made if missing. bwrap would follow a command's links when making it.
    """
    for source, place in confined.mounted:
        folder = next(each for each in confined.writable if place.is_relative_to(each))
        with contextlib.suppress(OSError), Beneath(folder) as held, held.folder(place.relative_to(folder), make=True):
            yield source, place


@functools.cache
def _filter() -> bytes:
    return seccomp.program(network="own")


def _request(
    argv: Sequence[str], env: Mapping[str, str], cwd: Path, confined: Confinement, tools: Sequence[Path]
) -> "Request":
    request: Request = {"argv": list(argv), "env": dict(env), "cwd": str(cwd), "limits": _limits(confined.bounds)}
    if confined.uid is not None:
        request["uid"] = confined.uid
        request["mounts"] = {
            "own": [str(each) for each in confined.writable],
            "kept": [str(each) for each in (*confined.readable, *(source for source, _ in confined.mounted))],
            "seen": [str(each) for each in tools],
        }
    return request


def _limits(bounds: Bounds) -> dict[str, int]:
    limits = {"core": 0, "processes": bounds.processes, "file": bounds.file_bytes, "files": bounds.open_files}
    return limits if bounds.memory_bytes is None else {**limits, "data": bounds.memory_bytes}


def _file(content: bytes) -> FileIO:
    """Return a nameless file that holds the content, positioned at its beginning."""
    file = FileIO(os.memfd_create("forgepool"), "r+b")
    file.write(content)
    file.seek(0)
    return file


def _pipe() -> tuple[FileIO, FileIO]:
    reading, writing = os.pipe()
    return FileIO(reading, "rb"), FileIO(writing, "wb")


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
