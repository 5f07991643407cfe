"""Calls and files by which a process asks the kernel for things that no test suite needs."""

import ctypes
import fcntl
import mmap
import os
import pty
import socket
import struct
import time
from pathlib import Path

from attempt import Stage, attempt
from calls import LIBC, call, opens, reached
from sight import heard, said_so

_REFUSED = ("user", "seccomp", "filter", "uid")
"""Layers against what only root may do, and not root of a namespace."""
_TIOCSTI = 0x5412
_NOWHERE = b"/nonexistent/forgepool"


def _own_terminal(path: str) -> int:
    """Open a free terminal, which then belongs to this session."""
    os.setsid()
    return os.open(path, os.O_RDWR)


def _type_into(terminal: int, stage: Stage, command: int) -> None:
    for letter in f"{stage.name}\n".encode():
        if LIBC.ioctl(terminal, ctypes.c_ulong(command), ctypes.byref(ctypes.c_char(letter))) != 0:
            raise OSError(ctypes.get_errno(), "ioctl")


@attempt("root", "seccomp", "files", "filter", "uid", seen=heard, may_be_idle="dev.tty.legacy_tiocsti is 0")
def type_into_a_terminal(stage: Stage) -> None:
    _type_into(_own_terminal(stage.terminals[stage.name]), stage, _TIOCSTI)


@attempt("root", "seccomp", "files", "filter", "uid", seen=heard, may_be_idle="dev.tty.legacy_tiocsti is 0")
def type_into_a_terminal_by_a_longer_number(stage: Stage) -> None:
    """The kernel looks only at the lower 32 bits of it."""
    _type_into(_own_terminal(stage.terminals[stage.name]), stage, 0xDEAD_0000_0000 | _TIOCSTI)


@attempt("seccomp", "files", "filter", seen=said_so, may_be_idle="dev.tty.legacy_tiocsti is 0")
def type_into_its_own_terminal(stage: Stage) -> bool:
    _, own = pty.openpty()
    _type_into(_own_terminal(os.ttyname(own)), stage, _TIOCSTI)
    return True


@attempt("seccomp", "files", "filter", seen=said_so)
def change_the_line_discipline(stage: Stage) -> bool:
    """The kernel may load a module for each of them."""
    _, own = pty.openpty()
    fcntl.ioctl(own, 0x5423, struct.pack("i", 0))
    return True


@attempt("seccomp", "filter", perhaps=("user", "uid"), seen=said_so, may_be_idle="there are no keyrings here")
def add_a_key(stage: Stage) -> bool:
    key = call((248, 217), b"user", stage.name.encode(), b"x", 1, -4)
    call((250, 219), 3, key)
    return True


@attempt("seccomp", "filter", seen=said_so, may_be_idle="kernel.perf_event_paranoid keeps it from users")
def watch_the_processor(stage: Stage) -> bool:
    settings = struct.pack("=IIQQQQQ", 1, 120, 1, 0, 0, 0, 0b1100000) + bytes(72)
    os.close(call((298, 241), ctypes.create_string_buffer(settings, 120), 0, -1, -1, 0))
    return True


@attempt("seccomp", "filter", seen=said_so, may_be_idle="the kernel hands no page faults to users")
def handle_page_faults(stage: Stage) -> bool:
    os.close(call((323, 282), 1))
    return True


@attempt(*_REFUSED, seen=said_so, needs_root=True)
def load_a_program_into_the_kernel(stage: Stage) -> bool:
    settings = struct.pack("=IIIII", 2, 4, 4, 1, 0) + bytes(100)
    os.close(call((321, 280), 0, ctypes.create_string_buffer(settings, 120), 120))
    return True


@attempt("seccomp", "filter", seen=said_so, may_be_idle="the kernel tells users nothing of changed files")
def watch_all_files(stage: Stage) -> bool:
    os.close(call((300, 262), 0x200, 0))
    return True


@attempt("seccomp", "filter", seen=said_so, may_be_idle="the kernel keeps no secret memory")
def keep_memory_secret(stage: Stage) -> bool:
    os.close(call(447, 0))
    return True


@attempt("seccomp", "filter", seen=said_so, may_be_idle="kernel.dmesg_restrict is 1")
def read_the_log_of_the_kernel(stage: Stage) -> bool:
    return call((103, 116), 3, ctypes.create_string_buffer(1000), 1000) > 0


@attempt("seccomp", "filter", seen=said_so)
def take_another_personality(stage: Stage) -> bool:
    """With this one, all readable memory is executable."""
    return reached((135, 92), 0x0400000)


@attempt("seccomp", "filter", seen=said_so)
def name_a_file_by_a_handle(stage: Stage) -> bool:
    handle = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0), 136)
    return reached((303, 264), -100, b".", handle, ctypes.create_string_buffer(8), 0)


def _run_code(code: bytes) -> int:
    """Run machine code as a function without arguments."""
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
    return function()


@attempt("seccomp", "filter", seen=said_so, may_be_idle="the kernel knows no calls of 32 bits")
def call_by_the_numbers_of_32_bits(stage: Stage) -> bool:
    """`socket` by `int 0x80` is another call for a filter that looks only at numbers. The family is a refused one."""
    if os.uname().machine != "x86_64":
        raise OSError(0, "only here")
    push_rbx, pop_rbx, back = b"\x53", b"\x5b", b"\xc3"
    arguments = b"\xbb" + struct.pack("<I", socket.AF_NETLINK) + b"\xb9\x03\0\0\0" + b"\xba" + struct.pack("<I", 12)
    answer = _run_code(push_rbx + b"\xb8" + struct.pack("<I", 359) + arguments + b"\xcd\x80" + pop_rbx + back)
    return answer >= 0


@attempt("seccomp", "filter", seen=said_so, may_be_idle="the kernel knows no calls of x32")
def call_by_the_numbers_of_x32(stage: Stage) -> bool:
    return reached(0x40000000 | 41, socket.AF_NETLINK, socket.SOCK_RAW, 12)


@attempt("seccomp", "filter", seen=said_so, may_be_idle="the kernel is not that new")
def make_a_call_that_nobody_knows(stage: Stage) -> bool:
    return reached(470, 0, 0, 0)


@attempt("seccomp", "filter", seen=said_so, may_be_idle="the kernel keeps no descriptors of segments")
def read_descriptors_of_segments(stage: Stage) -> bool:
    if os.uname().machine != "x86_64":
        raise OSError(0, "only here")
    return reached((154, -1), 0, ctypes.create_string_buffer(16), 16)


@attempt(*_REFUSED, "files", seen=said_so, needs_root=True)
def mount(stage: Stage) -> bool:
    """The file system is unknown, but the kernel tests the right to mount first."""
    return reached((165, 40), b"none", stage.worktree.encode(), b"nonexistent", 0, None)


@attempt(*_REFUSED, seen=said_so, needs_root=True)
def open_a_file_system(stage: Stage) -> bool:
    os.close(call(430, b"tmpfs", 0))
    return True


@attempt(*_REFUSED, seen=said_so, needs_root=True)
def change_the_root(stage: Stage) -> bool:
    return reached((161, 51), b"/")


@attempt(*_REFUSED, seen=said_so, needs_root=True, may_be_idle="the kernel loads no modules")
def load_a_module(stage: Stage) -> bool:
    return reached((313, 273), -1, b"", 0xFFFF)


@attempt(*_REFUSED, seen=said_so, needs_root=True, may_be_idle="the kernel loads no modules")
def unload_a_module(stage: Stage) -> bool:
    return reached((176, 106), b"forgepool_none", os.O_NONBLOCK)


@attempt(*_REFUSED, seen=said_so, needs_root=True, may_be_idle="the kernel loads no other kernel")
def load_a_kernel(stage: Stage) -> bool:
    """The flags are invalid for every kernel."""
    return reached((246, 104), 0, 0, None, 0x8000)


@attempt(*_REFUSED, seen=said_so, needs_root=True)
def restart_the_machine(stage: Stage) -> bool:
    """The magic numbers are missing, but the kernel tests the right first."""
    return reached((169, 142), 0, 0, 0, None)


@attempt(*_REFUSED, seen=said_so, needs_root=True)
def swap_to_a_file(stage: Stage) -> bool:
    return reached((167, 224), _NOWHERE, 0)


@attempt(*_REFUSED, seen=said_so, needs_root=True, may_be_idle="the kernel keeps no accounts")
def keep_account_of_processes(stage: Stage) -> bool:
    return reached((163, 89), _NOWHERE)


@attempt(*_REFUSED, seen=said_so, needs_root=True)
def rename_the_host(stage: Stage) -> bool:
    """It sets the name that the host has."""
    name = os.uname().nodename.encode()
    return reached((170, 161), name, len(name))


@attempt(*_REFUSED, seen=said_so, needs_root=True)
def set_the_clock(stage: Stage) -> bool:
    """It changes the clock by nothing, but the kernel tests the right first."""
    before = time.clock_gettime(time.CLOCK_REALTIME)
    parts = struct.pack("=ii", 0, 0)
    assert before
    return reached((164, 170), None, parts)


@attempt(*_REFUSED, seen=said_so, needs_root=True, may_be_idle="the machine has no ports")
def use_the_ports_of_the_machine(stage: Stage) -> bool:
    if os.uname().machine != "x86_64":
        raise OSError(0, "only here")
    return reached((172, -1), 3)


_SETTINGS = ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger")


def _opens_any(paths: tuple[str, ...], flags: int) -> bool:
    refused = OSError(0, "none")
    for each in paths:
        try:
            return opens(each, flags)
        except OSError as trouble:
            refused = trouble
    raise refused


@attempt("files", "uid", seen=said_so, needs_root=True)
def open_where_dumps_go(stage: Stage) -> bool:
    """`core_pattern` names a program that the kernel runs as root, whatever namespace the writer is in."""
    return opens(_SETTINGS[0], os.O_WRONLY)


@attempt("files", "uid", seen=said_so, needs_root=True)
def open_settings_of_the_kernel(stage: Stage) -> bool:
    return _opens_any(_SETTINGS[1:], os.O_WRONLY)


@attempt("root", "files", "uid", seen=said_so, needs_root=True)
def open_the_log_of_the_kernel(stage: Stage) -> bool:
    return opens("/dev/kmsg", os.O_WRONLY)


@attempt("root", "files", "uid", seen=said_so, needs_root=True)
def open_settings_of_devices(stage: Stage) -> bool:
    paths = ("/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/profiling")
    return _opens_any(paths, os.O_WRONLY)


@attempt("root", "files", "uid", seen=said_so, needs_root=True)
def join_a_control_group(stage: Stage) -> bool:
    """It only opens the file for writing."""
    groups = sorted(map(str, Path("/sys/fs/cgroup").glob("cgroup.procs")))
    return _opens_any((*groups, *sorted(map(str, Path("/sys/fs/cgroup").glob("*/cgroup.procs")))), os.O_WRONLY)
