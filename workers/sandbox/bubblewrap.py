"""
bwrap's arguments for a confinement: a root in which only what is named exists.

Nothing is run here. The arguments go through a descriptor (`--args`), not the command line: that can be read by every
user of the host, and is of limited length.

Why not `--ro-bind / /`, as others have it: every UNIX socket on the host (Redis, agents for keys, D-Bus) could be
connected to, every file of the user read.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from workers.sandbox.confinement import Confinement
from workers.sandbox.visible import ETC, SYSTEM

_HOSTS = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
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
    `numbers` says which descriptors bwrap is given: `seccomp` and `status`, the files of `written`, and with ports
    `block`.
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
        *("--proc", "/proc", "--dev", "/dev"),
        *("--perms", "1777", "--size", str(confined.bounds.shared_bytes), "--tmpfs", "/dev/shm"),
        *_folders(confined, tools),
        *("--remount-ro", "/", "--chdir", str(cwd)),
    ]


def written(confined: Confinement) -> dict[str, str]:
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


def _system() -> Iterator[str]:
    for name in SYSTEM:
        path = Path(name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), name)
        elif path.is_dir():
            yield from ("--ro-bind", name, name)


def _etc(numbers: Mapping[str, int]) -> Iterator[str]:
    for name in ETC:
        path = Path("/etc", name)
        if path.exists():
            yield from ("--ro-bind", str(path), str(path))
    for name in ("passwd", "group", "hosts", "nsswitch.conf", "resolv.conf"):
        yield from ("--perms", "0644", "--ro-bind-data", str(numbers[name]), f"/etc/{name}")


def _folders(confined: Confinement, tools: Sequence[Path]) -> Iterator[str]:
    """From the top down, so that no folder covers one that was bound before; `/tmp` first of all."""
    if confined.tmp is None:
        yield from ("--perms", "1777", "--size", str(confined.bounds.shared_bytes), "--tmpfs", "/tmp")
    else:
        yield from ("--bind", str(confined.tmp), "/tmp")
    how = dict.fromkeys((*tools, *confined.readable), "--ro-bind")
    how |= dict.fromkeys(confined.writable, "--bind") | dict.fromkeys(confined.protected, "--ro-bind")
    for path in sorted(how):
        yield from (how[path], str(path), str(path))
