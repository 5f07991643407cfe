"""
bwrap's arguments for a confinement: a root in which only what is named exists.

Nothing is run here. The arguments go through a descriptor (`--args`), not the command line: that can be read by every
user of the host, and is of limited length.

Why not `--ro-bind / /`, as others have it: every UNIX socket on the host (Redis, agents for keys, D-Bus) could be
connected to, every file of the user read.
"""

import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from forgepool.workers.sandbox.launch.readable_paths import PROCESSORS, SYSTEM, WRITTEN_ETC, etc
from forgepool.workers.schema.confinement import Confinement

_HOSTS = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
_TMP = ("/tmp", "/var/tmp")
_NAMES = "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"


def arguments(
    confined: Confinement,
    env: Mapping[str, str],
    cwd: Path,
    *,
    tools: Sequence[Path],
    numbers: Mapping[str, int],
) -> list[str]:
    """
    `numbers` says which descriptors bwrap is given: `seccomp` and `status`, with ports `block`, and the files of
    `make_etc_files` and `list_copied_files`, by their names.
    """
    return [
        *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
        *("--unshare-cgroup-try", "--hostname", "sandbox", "--die-with-parent", "--cap-drop", "ALL"),
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
    """The files of `/etc` that tell a command of itself alone: their names and contents."""
    uid = os.getuid() if confined.uid is None else confined.uid
    gid = os.getgid() if confined.uid is None else confined.uid
    home = confined.home or Path("/")
    return {
        "passwd": f"agent:x:{uid}:{gid}:agent:{home}:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
        "group": f"agent:x:{gid}:\nnogroup:x:65534:\n",
        "hosts": _HOSTS,
        "nsswitch.conf": _NAMES,
        "resolv.conf": "",
    }


def list_copied_files() -> tuple[str, ...]:
    """The files of the host's `/etc` that bwrap is given open, by their names."""
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
    """Links into the system's folders with their targets, folders, and the names of files."""
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
    """Its root is mounted read-only at the end, so that files need no mounts of their own, each of which takes time."""
    yield from ("--perms", "0755", "--dir", "/etc")
    links, folders, _ = _etc_kinds()
    for link, target in links:
        yield from ("--symlink", target, link)
    for folder in folders:
        yield from ("--ro-bind-try", folder, folder)
    for name in (*WRITTEN_ETC, *list_copied_files()):
        yield from ("--perms", "0644", "--file", str(numbers[name]), f"/etc/{name}")


def _folders(confined: Confinement, tools: Sequence[Path]) -> Iterator[str]:
    """From the top down, so that no folder covers one that was bound before; `/tmp` first of all."""
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
    Folders right in the command's `/tmp` below which others are bound. Were they its own, it could put a link there:
    bwrap would follow that at the next start, also to where it has the host's root, and make folders at its end.
    """
    found = {(above, *path.relative_to(above).parts) for path in bound for above in _TMP if path.is_relative_to(above)}
    itself = {each for each in found if len(each) == 2}
    return ["/".join(each) for each in sorted({each[:2] for each in found} - itself) if len(each) > 1]
