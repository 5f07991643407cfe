"""Attempts on another order: its worktree, its tmp, and its shared memory."""

import ctypes
import os
from pathlib import Path

from attempt import Stage, attempt
from calls import LIBC
from sight import told

_HIDDEN = ("root", "files", "uid")


@attempt(*_HIDDEN, seen=told("worktree"))
def read_another_worktree(stage: Stage) -> str:
    return Path(stage.other_worktree, "secret").read_text()


@attempt(*_HIDDEN, seen=lambda world, name, said: (world.other_worktree / name).exists())
def write_to_another_worktree(stage: Stage) -> None:
    Path(stage.other_worktree, stage.name).write_text("here")


@attempt(*_HIDDEN, seen=told("tmp"))
def read_another_tmp(stage: Stage) -> str:
    return Path(stage.other_tmp, "secret").read_text()


@attempt(*_HIDDEN, seen=lambda world, name, said: (world.other_tmp / name).exists())
def write_to_another_tmp(stage: Stage) -> None:
    Path(stage.other_tmp, stage.name).write_text("here")


@attempt("root", "files", "uid", seen=told("host tmp"))
def read_the_tmp_of_the_host(stage: Stage) -> str:
    return Path("/tmp", stage.shared).read_text()


@attempt("root", "files", seen=lambda world, name, said: world.found_in("/tmp", name))
def write_to_the_tmp_of_the_host(stage: Stage) -> None:
    """Other processes look for their own files there."""
    Path("/tmp", f"{stage.shared}.{stage.name}").write_text("here")


@attempt("root", "files", "uid", seen=told("shared"))
def read_shared_memory(stage: Stage) -> str:
    return Path("/dev/shm", stage.shared).read_text()


@attempt("root", "files", seen=lambda world, name, said: world.found_in("/dev/shm", name))
def leave_shared_memory(stage: Stage) -> None:
    Path("/dev/shm", f"{stage.shared}.{stage.name}").write_text("here")


@attempt("ipc", "filter", "uid", seen=told("segment"))
def attach_a_segment(stage: Stage) -> str:
    LIBC.shmat.restype = ctypes.c_void_p
    address = LIBC.shmat(stage.segment, None, 0o10000)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "shmat")
    return ctypes.string_at(address).decode()


@attempt("ipc", "filter", seen=lambda world, name, said: world.segment_of(said))
def make_a_segment(stage: Stage) -> int:
    """Another order could attach it, and the two must not communicate."""
    made: int = LIBC.shmget(0, 4096, 0o1666)
    if made < 0:
        raise OSError(ctypes.get_errno(), "shmget")
    return made


@attempt("ipc", "files", "filter", "uid", seen=told("queue"), may_be_idle="the kernel keeps no queues of messages")
def read_a_queue(stage: Stage) -> str:
    queue = LIBC.mq_open(f"/{stage.shared}".encode(), os.O_RDONLY | os.O_NONBLOCK)
    buffer = ctypes.create_string_buffer(8192)
    if queue < 0 or LIBC.mq_receive(queue, buffer, 8192, None) < 0:
        raise OSError(ctypes.get_errno(), "mq_open")
    return buffer.value.decode()
