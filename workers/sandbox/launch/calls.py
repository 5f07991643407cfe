"""
How the kernel is asked, through the C library, for what Python has no function for.

Standard library only: the launcher imports this without site-packages.
"""

import ctypes
import os

_LIBC = ctypes.CDLL(None, use_errno=True)
"""Linked already; opening it again for each call would cost more than the calls do."""

_PR_SET_NO_NEW_PRIVS = 38


def call(number: int, *arguments: int, otherwise: str) -> int:
    """
    What the system call answers. Buffers are given by `ctypes.addressof`, and kept alive by the caller.

    Raises:
        OSError: with the kernel's number, and `otherwise` before its reason.
    """
    function = _LIBC.syscall
    function.restype = ctypes.c_long
    return _answered(function(*map(ctypes.c_long, (number, *arguments))), otherwise)


def prctl(option: int, *arguments: int, otherwise: str) -> int:
    """As `call`, with arguments left out being zero."""
    four = (*arguments, 0, 0, 0, 0)[:4]
    return _answered(_LIBC.prctl(option, *map(ctypes.c_ulong, four)), otherwise)


def give_up_privileges() -> None:
    """From here on no program gains rights by being set-uid; filters and Landlock ask for it."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1, otherwise="the kernel lets no process give up gaining rights")


def _answered(value: int, otherwise: str) -> int:
    if value < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{otherwise}: {os.strerror(number)}")
    return value
