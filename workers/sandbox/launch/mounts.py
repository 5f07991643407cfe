"""
A mount namespace in which a command's folders belong to the uid it runs under; only root can make one.

Started by root, the harness runs commands under a uid that owns nothing. Their folders are bound over themselves
through an id mapping: on disk they stay root's, in here they are that uid's, and what it makes is root's again. So
nothing is ever handed over by `chown`, and nothing has to be taken back. A folder on the way that is closed to others
(root's home) is hidden by an empty one, in which only what is needed is there.

Standard library only: the launcher imports this without site-packages.
"""

import ctypes
import errno
import os
import stat
import struct

from forgepool.workers.sandbox.launch import calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_UNSHARE = {"x86_64": 272, "aarch64": 97}
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_NEW_NS, _NEW_USER = 0x20000, 0x10000000
_AT_FDCWD, _EMPTY_PATH, _RECURSIVE, _CLONE, _CLOEXEC = -100, 0x1000, 0x8000, 1, os.O_CLOEXEC
_MOVE_EMPTY_FROM = 4
_RDONLY, _NOSUID, _NODEV, _IDMAP = 0x1, 0x2, 0x4, 0x100000
_MS_REC, _MS_SLAVE = 0x4000, 0x80000


def own_namespace(own: "Iterable[str]", kept: "Iterable[str]", seen: "Iterable[str]", user: int) -> None:
    """
    This process' mounts become its own, with `own` writable and `kept` read-only as the folders of the mapped uid.

    `user` is a `user_namespace`. What is `seen` is there, as it is, though a folder above it may be closed.

    Raises:
        OSError: the process may not, or the file system of a folder knows no id mapping.
    """
    _unshare(_NEW_NS)
    _mount(None, "/", None, _MS_REC | _MS_SLAVE, None)
    trees = [(path, _mapped(path, user, _NOSUID | _NODEV)) for path in own]
    trees += [(path, _mapped(path, user, _NOSUID | _NODEV | _RDONLY)) for path in kept]
    trees += [(path, _tree(path, _RECURSIVE)) for path in seen if _closed_above(path) and _exists(path)]
    _attach(trees)


def become(uid: int) -> None:
    """No way back: all three user and group ids, and no further groups."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def _attach(trees: "Sequence[tuple[str, int]]") -> None:
    """From the top down, so that what lies below another mount is not covered by it."""
    hidden: set[str] = set()
    for path, tree in sorted(trees):
        for folder in _closed_above(path)[:1]:
            if not any(_within(folder, other) for other in hidden):
                _mount("tmpfs", folder, "tmpfs", 0, "mode=0755,size=1m")
                hidden.add(folder)
        _make_place(path, tree)
        empty = ctypes.create_string_buffer(b"")
        place = ctypes.create_string_buffer(os.fsencode(path))
        calls.call(
            _MOVE_MOUNT,
            tree,
            ctypes.addressof(empty),
            _AT_FDCWD,
            ctypes.addressof(place),
            _MOVE_EMPTY_FROM,
            otherwise=f"{path}: cannot be mounted for the command",
        )
        os.close(tree)


def _make_place(path: str, tree: int) -> None:
    """Where a hidden folder was: folders on the way are open to all."""
    if _exists(path):
        return
    above = os.path.dirname(path)  # noqa: PTH120 - no pathlib
    before = os.umask(0o022)
    os.makedirs(above, exist_ok=True)  # noqa: PTH103 - no pathlib
    if stat.S_ISDIR(os.fstat(tree).st_mode):
        os.mkdir(path)  # noqa: PTH102 - no pathlib
    else:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
    os.umask(before)


def _closed_above(path: str) -> list[str]:
    """The folders above a path that others cannot pass, the topmost first."""
    parts = path.split("/")[1:-1]
    above = ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]
    return [folder for folder in above if _exists(folder) and not _mode(folder) & stat.S_IXOTH]


def _exists(path: str) -> bool:
    return os.path.lexists(path)


def _mode(path: str) -> int:
    return os.stat(path).st_mode  # noqa: PTH116 - as above


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _mapped(path: str, user: int, attributes: int) -> int:
    tree = _tree(path, 0)
    settings = struct.pack("=QQQQ", attributes | _IDMAP, 0, 0, user)
    buffer, empty = ctypes.create_string_buffer(settings, len(settings)), ctypes.create_string_buffer(b"")
    otherwise = f"{path}: its file system knows no id mapping, which root needs to run commands as another user"
    where = (ctypes.addressof(empty), _EMPTY_PATH, ctypes.addressof(buffer), len(settings))
    calls.call(_MOUNT_SETATTR, tree, *where, otherwise=otherwise)
    return tree


def _tree(path: str, how: int) -> int:
    name = ctypes.create_string_buffer(os.fsencode(path))
    otherwise = f"{path}: cannot be opened to be mounted"
    return calls.call(_OPEN_TREE, _AT_FDCWD, ctypes.addressof(name), _CLONE | _CLOEXEC | how, otherwise=otherwise)


def user_namespace(uid: int) -> int:
    """
    A user namespace that maps root's id to the uid, held open by a descriptor; nobody lives in it.

    Raises:
        OSError: this process may not make one.
    """
    ready, say_ready = os.pipe()
    done, say_done = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _unshare(_NEW_USER)
            os.write(say_ready, b"x")
            os.close(say_done)
            os.read(done, 1)
        finally:
            os._exit(0)
    try:
        os.close(say_ready)
        if not os.read(ready, 1):
            raise OSError(errno.EPERM, "root may not make a user namespace here")
        for kind in ("uid_map", "gid_map"):
            file = os.open(f"/proc/{pid}/{kind}", os.O_WRONLY | os.O_CLOEXEC)
            os.write(file, f"0 {uid} 1\n".encode())
            os.close(file)
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        for each in (ready, done, say_done):
            os.close(each)
        os.waitpid(pid, 0)


def _unshare(kinds: int) -> None:
    calls.call(_UNSHARE[os.uname().machine], kinds, otherwise="a namespace cannot be made")


def _mount(source: str | None, place: str, kind: str | None, flags: int, options: str | None) -> None:
    given = [None if each is None else os.fsencode(each) for each in (source, place, kind, options)]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(given[0], given[1], given[2], ctypes.c_ulong(flags), given[3]) != 0:
        raise OSError(ctypes.get_errno(), f"{place}: cannot be mounted: {os.strerror(ctypes.get_errno())}")
