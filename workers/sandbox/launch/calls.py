"""
Direct system calls, for what Python has no function.

Standard library only: the launcher imports this without site-packages.
"""

import ctypes
import os

_LIBC = ctypes.CDLL(None, use_errno=True)
"""Opened once: opening it for each call would cost more than the calls."""

_PR_SET_NO_NEW_PRIVS = 38


def call(number: int, *arguments: int, otherwise: str) -> int:
    """
    Make a system call and return its result. Callers pass buffers by `ctypes.addressof` and keep them alive.

    Raises:
        OSError: the kernel's number, and `otherwise` before its reason.
    """
    function = _LIBC.syscall
    function.restype = ctypes.c_long
    return _answered(function(*map(ctypes.c_long, (number, *arguments))), otherwise)


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
        raise OSError(number, f"{otherwise}: {os.strerror(number)}")
    return value
