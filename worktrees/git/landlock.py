"""
Landlock: a process irrevocably gives up access to files, TCP ports and other processes, for itself and its children.

Git's fence and the sandbox are built on it. `call` and `prctl` make the system calls that Python has no function for.

`restrict_files` is the fallback's whole boundary for files, where bubblewrap cannot run. `restrict_scope` gives up only
other processes; it applies before bubblewrap, which could not mount anything after `restrict_files`. Both stack: no
later call restores what an earlier one gave up.

Landlock does not cover changing modes, owners, times and attributes, asking whether a path exists, or refusing
something inside an allowed folder. Nor does it cover UDP, MPTCP and fast-open; the sandbox's `seccomp`
refuses those sockets.

Standard library only: the launcher imports this without site-packages.
"""

import ctypes
import errno
import os
import stat
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:  # `collections.abc` is not loaded at the launcher's start.
    from collections.abc import Iterable

_LIBC = ctypes.CDLL(None, use_errno=True)
"""Opened once: opening it for each call would cost more than the calls."""

_PR_SET_NO_NEW_PRIVS = 38

Place = str | bytes

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
"""No terminals: a command could read and write those of the user's other sessions."""

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _OPENAT2 = 444, 445, 446, 437
"""The same numbers on x86_64 and aarch64."""
_ASK_VERSION, _RULE_PATH_BENEATH = 1, 1
_AT_FDCWD, _RESOLVE_NO_SYMLINKS = -100, 0x04

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK, _TRUNCATE, _IOCTL_DEV, _RESOLVE_UNIX = 1 << 6, 1 << 11, 1 << 14, 1 << 15, 1 << 16
_FILE_RIGHTS = ((1, 13), (2, 14), (3, 15), (5, 16), (9, 17))
"""How many file rights each ABI knows: all to MAKE_SYM, REFER, TRUNCATE, IOCTL_DEV, RESOLVE_UNIX."""
_TCP_SINCE, _TCP_RIGHTS = 4, 0b11
"""Binding to a port and connecting to one."""
SCOPES_SINCE, _SCOPES = 6, 0b11
"""Abstract UNIX sockets and signals."""

_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV | _RESOLVE_UNIX
"""The rights that a rule may grant on something that is not a folder."""
READING = _EXECUTE | _READ_FILE | _READ_DIR
"""Includes running: what can be read can be copied to where it can be run."""
USING_DEVICES = _READ_FILE | _WRITE_FILE | _IOCTL_DEV
_NEVER = _MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV


def call(number: int, *arguments: int, otherwise: str) -> int:
    """
    Make a system call and return its result. Callers pass buffers by `ctypes.addressof` and keep them alive.

    Raises:
        OSError: the kernel's number, and `otherwise` before its reason.
    """
    function = _LIBC.syscall
    function.restype = ctypes.c_long
    return _answered(function(*map(ctypes.c_long, (number, *arguments))), otherwise)


def openat2(folder: int, path: Place, flags: int, mode: int, resolve: int, *, otherwise: str = "") -> int:
    """
    Open a path below a folder's descriptor, limited by `resolve`. Every kernel that has Landlock has the call.

    Raises:
        OSError: as for `call`.
    """
    name, how = ctypes.create_string_buffer(os.fsencode(path)), _buffer("=QQQ", flags, mode, resolve)
    while True:
        try:
            return call(_OPENAT2, folder, ctypes.addressof(name), ctypes.addressof(how), len(how), otherwise=otherwise)
        except InterruptedError:
            continue


def prctl(option: int, *arguments: int, otherwise: str) -> int:
    """Make a `prctl` call like `call`; missing arguments are zero."""
    four = (*arguments, 0, 0, 0, 0)[:4]
    return _answered(_LIBC.prctl(option, *map(ctypes.c_ulong, four)), otherwise)


def give_up_privileges() -> None:
    """Stop set-uid programs from gaining rights from now on; seccomp filters and Landlock require it."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1, otherwise="the kernel lets no process give up gaining rights")


def _answered(value: int, otherwise: str) -> int:
    if value < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{otherwise}: {os.strerror(number)}" if otherwise else os.strerror(number))
    return value


def abi() -> int:
    """Return the kernel's version of Landlock; 0 where it is missing or switched off."""
    try:
        return call(_CREATE_RULESET, 0, 0, _ASK_VERSION, otherwise="no Landlock")
    except OSError:
        return 0


def restrict_files(
    readable: "Iterable[Place]", writable: "Iterable[Place]", *, devices: "Iterable[Place]" = DEVICES
) -> None:
    """
    Limit this process to read and run what is below `readable` and `writable`, and to change what is below `writable`.

    TCP ports, abstract sockets and signals to outside are given up too, as far as the ABI knows them (`unheld`).
    `writable` are real paths without any symbolic link: a link could be changed before it is used. Paths of `readable`
    and `devices` that are missing or cannot be reached are left out.

    Raises:
        OSError: nothing changed except `no_new_privs`. There is no Landlock, or a path of `writable` is missing or
            leads
            through a link.
    """
    files, tcp, scopes = find_handled_rights(_level(1, "files"))
    ruleset = make_ruleset(files, tcp, scopes)
    try:
        _allow_existing(ruleset, readable, READING & files)
        _allow_existing(ruleset, devices, USING_DEVICES & files)
        for place in writable:
            allow(
                ruleset,
                openat2(
                    _AT_FDCWD,
                    place,
                    os.O_PATH | os.O_CLOEXEC,
                    0,
                    _RESOLVE_NO_SYMLINKS,
                    otherwise=f"{os.fsdecode(place)} cannot be made writable; it must be a real path, without links",
                ),
                files & ~_NEVER,
            )
        enter(ruleset)
    finally:
        os.close(ruleset)


def restrict_scope() -> None:
    """
    Stop signals to processes outside and abstract UNIX sockets of theirs; access to files stays as it was.

    Raises:
        OSError: nothing changed: Landlock is missing or older than ABI 6 (Linux 6.12).
    """
    _level(SCOPES_SINCE, "signals and abstract sockets")
    ruleset = make_ruleset(0, 0, _SCOPES)
    try:
        enter(ruleset)
    finally:
        os.close(ruleset)


def find_handled_rights(level: int) -> tuple[int, int, int]:
    """Return the file rights, TCP rights and scopes that an ABI knows; the kernel accepts no others."""
    files = (1 << max(count for since, count in _FILE_RIGHTS if since <= level)) - 1
    return files, _TCP_RIGHTS if level >= _TCP_SINCE else 0, _SCOPES if level >= SCOPES_SINCE else 0


def unheld(level: int) -> tuple[str, ...]:
    """Describe, for the user, what `restrict_files` does not stop with this ABI and does with later ones."""
    gaps = (
        (3, "files outside may be cut to nothing where their mode allows writing"),
        (SCOPES_SINCE, "signals may be sent to the user's other processes"),
        (SCOPES_SINCE, "abstract UNIX sockets of others may be connected to"),
        (9, "UNIX sockets outside may be connected to by their path"),
    )
    return tuple(gap for since, gap in gaps if level < since)


def _level(needed: int, what: str) -> int:
    level = abi()
    if level >= needed:
        return level
    found = f"its Landlock is of ABI {level}" if level else "it has no Landlock, or it is switched off"
    raise OSError(errno.ENOSYS, f"the kernel cannot confine {what}: {found}; ABI {needed} or later is needed")


def make_ruleset(files: int, tcp: int, scopes: int) -> int:
    """Make a rule set. The kernel accepts a longer struct than it knows when the rest is zero."""
    attributes = _buffer("=QQQ", files, tcp, scopes)
    size = len(attributes)
    return call(_CREATE_RULESET, ctypes.addressof(attributes), size, 0, otherwise="Landlock takes no set of rules")


def _allow_existing(ruleset: int, places: "Iterable[Place]", rights: int) -> None:
    for place in places:
        try:
            opened = os.open(place, os.O_PATH | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        allow(ruleset, opened, rights)


def allow(ruleset: int, opened: int, rights: int) -> None:
    """Allow the rights on an open path, and close it."""
    try:
        on_it = rights if stat.S_ISDIR(os.fstat(opened).st_mode) else rights & _ON_FILES
        rule = _buffer("=Qi", on_it, opened)
        otherwise = "Landlock takes no rule about a path"
        call(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.addressof(rule), 0, otherwise=otherwise)
    finally:
        os.close(opened)


def enter(ruleset: int) -> None:
    give_up_privileges()
    call(_RESTRICT_SELF, ruleset, 0, otherwise="Landlock's rules do not hold")


def _buffer(layout: str, *values: int) -> "ctypes.Array[ctypes.c_char]":
    packed = struct.pack(layout, *values)
    return ctypes.create_string_buffer(packed, len(packed))
