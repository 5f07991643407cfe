"""System calls by number, where Python has no function."""

import ctypes
import errno
import os

LIBC = ctypes.CDLL(None, use_errno=True)
_COLUMN = {"x86_64": 0, "aarch64": 1}[os.uname().machine]
_REFUSALS = (errno.EPERM, errno.EACCES, errno.ENOSYS)


def call(numbers: "tuple[int, int] | int", *arguments: "int | bytes | ctypes.Array[ctypes.c_char] | None") -> int:
    """The number is that of x86_64 and aarch64, or one for both. || Raises: OSError: as the kernel says."""
    number = numbers if isinstance(numbers, int) else numbers[_COLUMN]
    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    LIBC.syscall.restype = ctypes.c_long
    answer: int = LIBC.syscall(ctypes.c_long(number), *given)
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


def reached(numbers: "tuple[int, int] | int", *arguments: "int | bytes | ctypes.Array[ctypes.c_char] | None") -> bool:
    """
    Return whether the kernel began to work on it, because the right to call is tested before the arguments.

    Raises: OSError: it was refused.
    """
    try:
        call(numbers, *arguments)
    except OSError as trouble:
        if trouble.errno in _REFUSALS:
            raise
    return True


def opens(path: str, flags: int) -> bool:
    """Open the file and close it without writing."""
    os.close(os.open(path, flags | os.O_CLOEXEC))
    return True
