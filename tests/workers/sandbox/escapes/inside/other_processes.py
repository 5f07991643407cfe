"""Attempts to see, trace, signal or slow processes outside, and to make namespaces."""

import ctypes
import os
import resource
import signal
import struct
from pathlib import Path

from attempt import Stage, attempt
from calls import LIBC, call
from sight import harmed, said_so, told

_TRACED = ("user", "pids", "scope", "files", "seccomp", "filter", "uid")
_SIGNALLED = ("pids", "scope", "files", "uid")
_NEW_NS, _NEW_USER, _NEW_PID = 0x20000, 0x10000000, 0x20000000
_PIDFD_OPEN, _PIDFD_SIGNAL, _PIDFD_GETFD, _CLONE3 = 434, 424, 438, 435


@attempt("pids", seen=lambda world, name, said: bool(said) and said.split() == world.stat_of_harness())
def see_the_harness(stage: Stage) -> str:
    """It reads the pid and the start time, which together identify the process."""
    fields = Path(f"/proc/{stage.harness}/stat").read_text().rpartition(")")[2].split()
    return f"{stage.harness} {fields[19]}"


@attempt(*_TRACED, seen=told("memory"))
def trace_a_process(stage: Stage) -> str:
    LIBC.ptrace.restype = ctypes.c_long
    address = ctypes.c_void_p(stage.witness_address)
    if LIBC.ptrace(16, stage.witness, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    os.waitpid(stage.witness, 0x40000000)
    words = [LIBC.ptrace(1, stage.witness, ctypes.c_void_p(address.value + 8 * word), None) for word in range(8)]
    LIBC.ptrace(17, stage.witness, None, None)
    return struct.pack("8q", *words).decode(errors="replace")


def _vectors(stage: Stage, buffer: "ctypes.Array[ctypes.c_char]") -> tuple[bytes, bytes]:
    length = len(buffer)
    return struct.pack("PL", ctypes.addressof(buffer), length), struct.pack("PL", stage.witness_address, length)


@attempt(*_TRACED, seen=told("memory"))
def read_the_memory_of_a_process(stage: Stage) -> str:
    buffer = ctypes.create_string_buffer(64)
    own, theirs = _vectors(stage, buffer)
    call((310, 270), stage.witness, own, 1, theirs, 1, 0)
    return buffer.raw.decode(errors="replace")


@attempt(*_TRACED, seen=lambda world, name, said: world.scratch_of_witness() == name[:16])
def write_the_memory_of_a_process(stage: Stage) -> None:
    """It writes at a place beside the secret."""
    buffer = ctypes.create_string_buffer(stage.name.encode()[:16], 16)
    own = struct.pack("PL", ctypes.addressof(buffer), 16)
    call((311, 271), stage.witness, own, 1, struct.pack("PL", stage.witness_address + 128, 16), 1, 0)


@attempt(*_TRACED, seen=told("unnamed"))
def take_a_descriptor_of_a_process(stage: Stage) -> str:
    process = call(_PIDFD_OPEN, stage.witness, 0)
    return os.pread(call(_PIDFD_GETFD, process, stage.witness_file, 0), 1000, 0).decode()


@attempt(*_TRACED, seen=said_so, may_be_idle="the kernel compares no processes")
def compare_with_a_process(stage: Stage) -> bool:
    return call((312, 272), os.getpid(), stage.witness, 2, 0, 0) >= 0


@attempt(*_SIGNALLED, seen=harmed)
def kill_a_process(stage: Stage) -> None:
    os.kill(stage.victims[stage.name], signal.SIGKILL)


@attempt(*_SIGNALLED, seen=harmed)
def kill_a_group(stage: Stage) -> None:
    os.killpg(stage.victims[stage.name], signal.SIGKILL)


@attempt(*_SIGNALLED, seen=harmed)
def kill_a_thread(stage: Stage) -> None:
    victim = stage.victims[stage.name]
    call((234, 131), victim, victim, signal.SIGKILL)


@attempt(*_SIGNALLED, seen=harmed)
def kill_by_a_descriptor(stage: Stage) -> None:
    call(_PIDFD_SIGNAL, call(_PIDFD_OPEN, stage.victims[stage.name], 0), signal.SIGKILL, 0, 0)


@attempt(*_SIGNALLED, seen=harmed)
def kill_by_the_owner_of_a_file(stage: Stage) -> None:
    """The owner of a socket gets a signal when data arrives, and the kernel sends it."""
    import fcntl
    import socket

    ours, theirs = socket.socketpair()
    fcntl.fcntl(ours, fcntl.F_SETOWN, stage.victims[stage.name])
    fcntl.fcntl(ours, 10, signal.SIGKILL)  # F_SETSIG
    fcntl.fcntl(ours, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    theirs.send(b"x")


@attempt("pids", "filter", "uid", seen=lambda world, name, said: world.limit_of(name) == 7)
def limit_a_process(stage: Stage) -> None:
    """Without files or time the process cannot continue."""
    resource.prlimit(stage.victims[stage.name], resource.RLIMIT_NOFILE, (7, 7))


@attempt("pids", "filter", "uid", seen=lambda world, name, said: world.nice_of(name) == 19)
def slow_a_process(stage: Stage) -> None:
    os.setpriority(os.PRIO_PROCESS, stage.victims[stage.name], 19)


@attempt("pids", "filter", "uid", seen=lambda world, name, said: world.policy_of(name) == os.SCHED_IDLE)
def let_a_process_wait_for_all(stage: Stage) -> None:
    os.sched_setscheduler(stage.victims[stage.name], os.SCHED_IDLE, os.sched_param(0))


@attempt("pids", "filter", "uid", seen=lambda world, name, said: world.processors_of(name) == {0})
def pin_a_process(stage: Stage) -> None:
    os.sched_setaffinity(stage.victims[stage.name], {0})


@attempt("seccomp", "files", "filter", seen=said_so, may_be_idle="users may not make namespaces here")
def make_a_user_namespace(stage: Stage) -> bool:
    """A process has every right in it, and can attack more of the kernel."""
    if LIBC.unshare(_NEW_USER) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    return True


@attempt("seccomp", "filter", seen=said_so, may_be_idle="users may not make namespaces here")
def make_a_user_namespace_by_clone3(stage: Stage) -> bool:
    arguments = struct.pack("=8Q", _NEW_USER, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    pid = call(_CLONE3, ctypes.create_string_buffer(arguments, 64), 64)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return True


@attempt("seccomp", "filter", seen=said_so, may_be_idle="users may not make namespaces here")
def make_a_user_namespace_by_clone(stage: Stage) -> bool:
    pid = call((56, 220), _NEW_USER | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return True


@attempt("seccomp", "files", "filter", seen=said_so, may_be_idle="users may not make namespaces here")
def mount_in_a_namespace(stage: Stage) -> bool:
    if LIBC.unshare(_NEW_USER | _NEW_NS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    if LIBC.mount(b"none", stage.worktree.encode(), b"tmpfs", 0, None) != 0:
        raise OSError(ctypes.get_errno(), "mount")
    return True


@attempt("user", "root", "pids", "network", "ipc", "scope", "files", "seccomp", "filter", "uid", seen=said_so)
def gain_rights_by_a_program(stage: Stage) -> bool:
    """It looks whether a set-uid program could make it root, which `no_new_privs` prevents."""
    status = Path("/proc/self/status").read_text()
    return "NoNewPrivs:\t0" in status


@attempt("user", "uid", "root", "pids", "network", "ipc", seen=said_so, needs_root=True)
def have_a_capability(stage: Stage) -> bool:
    status = Path("/proc/self/status").read_text()
    return any(f"{name}:\t0000000000000000" not in status for name in ("CapEff", "CapPrm", "CapAmb"))
