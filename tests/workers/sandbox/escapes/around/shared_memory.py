"""
Objects that processes share by number or by name, through the C library: System V segments, queues, keys, file handles.
"""

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from calls import LIBC, call

_PRIVATE, _REMOVE, _CREATE = 0, 0, 0o1000
_ADD_KEY, _KEYCTL = (248, 217), (250, 219)
_SET_PERMISSIONS, _UNLINK, _OF_THE_USER = 5, 9, -4
_ALL_FOR_THE_USER = 0x3F3F0000


@contextlib.contextmanager
def segment(secret: str) -> Iterator[int]:
    number = LIBC.shmget(_PRIVATE, 4096, _CREATE | 0o600)
    LIBC.shmat.restype = ctypes.c_void_p
    ctypes.memmove(LIBC.shmat(number, None, 0), secret.encode() + b"\0", len(secret) + 1)
    try:
        yield number
    finally:
        remove_segment(number)


def remove_segment(number: int) -> bool:
    """Remove the segment, and return whether there was one."""
    return bool(LIBC.shmctl(number, _REMOVE, None) == 0)


@contextlib.contextmanager
def queue(name: str, secret: str) -> Iterator[None]:
    """Make a message queue; do nothing where the kernel has none."""
    opened = LIBC.mq_open(f"/{name}".encode(), os.O_RDWR | os.O_CREAT, 0o600, None)
    if opened >= 0:
        LIBC.mq_send(opened, secret.encode(), len(secret), 0)
    try:
        yield
    finally:
        LIBC.mq_unlink(f"/{name}".encode())
        if opened >= 0:
            os.close(opened)


@contextlib.contextmanager
def key(name: str, secret: str) -> Iterator[int]:
    """Put a key into the user's keyring, and return its number, or 0 without a keyring."""
    try:
        number = call(_ADD_KEY, b"user", name.encode(), secret.encode(), len(secret), _OF_THE_USER)
        call(_KEYCTL, _SET_PERMISSIONS, number, _ALL_FOR_THE_USER)
    except OSError:
        yield 0
        return
    try:
        yield number
    finally:
        call(_KEYCTL, _UNLINK, number, _OF_THE_USER)


def handle_of(path: Path) -> tuple[int, str]:
    """Return a file handle's type and hexadecimal digits, or nothing where the file system has none."""
    handle = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0), 136)
    mount = ctypes.c_int()
    if LIBC.name_to_handle_at(-100, str(path).encode(), handle, ctypes.byref(mount), 0) != 0:
        return 0, ""
    length, kind = struct.unpack_from("=Ii", handle.raw)
    return kind, handle.raw[8 : 8 + length].hex()
