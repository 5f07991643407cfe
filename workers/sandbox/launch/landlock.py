"""
Landlock: what a process gives up of the file system, of TCP and of other processes, for itself and all it starts.

`restrict_files` is the fallback's whole boundary for files, where no bubblewrap can be run. `restrict_scope` gives up
other processes alone; it holds before bubblewrap, which could not mount anything after `restrict_files`. Both stack:
what one gave up no later one brings back.

What Landlock does not know: changing modes, owners, times and attributes, asking whether a path exists, refusing
something inside an allowed folder, and UDP, MPTCP and fast-open (`seccomp` refuses those sockets).

Standard library only: the launcher imports this without site-packages.
"""

import ctypes
import errno
import os
import stat
import struct

from forgepool.workers.sandbox.launch import calls

TYPE_CHECKING = False
if TYPE_CHECKING:  # `collections.abc` is not loaded at the launcher's start.
    from collections.abc import Iterable

Place = str | bytes

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
"""No terminals: those of the user's other sessions could be read and written to as well."""

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _OPENAT2 = 444, 445, 446, 437
"""The same numbers on x86_64 and aarch64."""
_ASK_VERSION, _RULE_PATH_BENEATH = 1, 1
_AT_FDCWD, _RESOLVE_NO_SYMLINKS = -100, 0x04

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK, _TRUNCATE, _IOCTL_DEV, _RESOLVE_UNIX = 1 << 6, 1 << 11, 1 << 14, 1 << 15, 1 << 16
_FILE_RIGHTS = ((1, 13), (2, 14), (3, 15), (5, 16), (9, 17))
"""How many rights on files are known from which ABI on: all to MAKE_SYM, REFER, TRUNCATE, IOCTL_DEV, RESOLVE_UNIX."""
_TCP_SINCE, _TCP_RIGHTS = 4, 0b11
"""Binding to a port and connecting to one."""
SCOPES_SINCE, _SCOPES = 6, 0b11
"""Abstract UNIX sockets and signals."""

_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV | _RESOLVE_UNIX
"""The rights that a rule may name about what is not a folder."""
_READING = _EXECUTE | _READ_FILE | _READ_DIR
"""Running included: what can be read can be copied to where it can be run."""
_USING_DEVICES = _READ_FILE | _WRITE_FILE | _IOCTL_DEV
_NEVER = _MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV


def abi() -> int:
    """The kernel's version of Landlock, 0 where there is none or it is switched off."""
    try:
        return calls.call(_CREATE_RULESET, 0, 0, _ASK_VERSION, otherwise="no Landlock")
    except OSError:
        return 0


def restrict_files(
    readable: "Iterable[Place]", writable: "Iterable[Place]", *, devices: "Iterable[Place]" = DEVICES
) -> None:
    """
    From here on: reads and runs what is below `readable` and `writable`, changes what is below `writable`, no more.

    TCP ports, abstract sockets and signals to outside are given up too, as far as the ABI knows of them (`unheld`).
    `writable` are real paths, no symbolic link anywhere in them: it could be turned between being made and being
    used. What does not exist of `readable` and `devices`, or cannot be reached anyway, is left out.

    Raises:
        OSError: it does not hold, and the process is as it was, save `no_new_privs`: there is no Landlock, or one of
            `writable` is missing or leads through a link.
    """
    files, tcp, scopes = find_handled_rights(_level(1, "files"))
    ruleset = _ruleset(files, tcp, scopes)
    try:
        _allow_existing(ruleset, readable, _READING & files)
        _allow_existing(ruleset, devices, _USING_DEVICES & files)
        for place in writable:
            _allow(ruleset, _open_real(place), files & ~_NEVER)
        _enter(ruleset)
    finally:
        os.close(ruleset)


def restrict_scope() -> None:
    """
    From here on: no signal to a process outside and no abstract UNIX socket of one; files stay as they were.

    Raises:
        OSError: it does not hold: Landlock is missing or older than ABI 6 (Linux 6.12).
    """
    _level(SCOPES_SINCE, "signals and abstract sockets")
    ruleset = _ruleset(0, 0, _SCOPES)
    try:
        _enter(ruleset)
    finally:
        os.close(ruleset)


def find_handled_rights(level: int) -> tuple[int, int, int]:
    """The rights on files, on TCP ports, and the scopes that an ABI knows; the kernel takes no more of them."""
    files = (1 << max(count for since, count in _FILE_RIGHTS if since <= level)) - 1
    return files, _TCP_RIGHTS if level >= _TCP_SINCE else 0, _SCOPES if level >= SCOPES_SINCE else 0


def unheld(level: int) -> tuple[str, ...]:
    """What `restrict_files` does not hold with this ABI, though with later ones it does; for who tells the user."""
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


def _ruleset(files: int, tcp: int, scopes: int) -> int:
    """A kernel takes a longer struct than it knows as long as the rest of it is zero."""
    attributes = _buffer("=QQQ", files, tcp, scopes)
    size = len(attributes)
    return calls.call(
        _CREATE_RULESET, ctypes.addressof(attributes), size, 0, otherwise="Landlock takes no set of rules"
    )


def _allow_existing(ruleset: int, places: "Iterable[Place]", rights: int) -> None:
    for place in places:
        try:
            opened = os.open(place, os.O_PATH | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        _allow(ruleset, opened, rights)


def _allow(ruleset: int, opened: int, rights: int) -> None:
    """Closes `opened`."""
    try:
        on_it = rights if stat.S_ISDIR(os.fstat(opened).st_mode) else rights & _ON_FILES
        rule = _buffer("=Qi", on_it, opened)
        otherwise = "Landlock takes no rule about a path"
        calls.call(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.addressof(rule), 0, otherwise=otherwise)
    finally:
        os.close(opened)


def _open_real(place: Place) -> int:
    """Every kernel that has Landlock has `openat2`."""
    path = ctypes.create_string_buffer(os.fsencode(place))
    how = _buffer("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_NO_SYMLINKS)
    otherwise = f"{os.fsdecode(place)} cannot be made writable; it must be a real path, without links"
    return calls.call(_OPENAT2, _AT_FDCWD, ctypes.addressof(path), ctypes.addressof(how), len(how), otherwise=otherwise)


def _enter(ruleset: int) -> None:
    calls.give_up_privileges()
    calls.call(_RESTRICT_SELF, ruleset, 0, otherwise="Landlock's rules do not hold")


def _buffer(layout: str, *values: int) -> "ctypes.Array[ctypes.c_char]":
    packed = struct.pack(layout, *values)
    return ctypes.create_string_buffer(packed, len(packed))
