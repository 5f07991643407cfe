import ctypes
import errno
import functools
import json
import os
import platform
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest
from house import TREE
from hypothesis import given
from hypothesis import strategies as st

from forgepool.workers.sandbox.launch import seccomp
from forgepool.workers.sandbox.launch.seccomp import HIGHEST, REFUSED, SHARED, TOLD_APART, UNKNOWN

Network = Literal["own", "none"]
Machine = Literal["x86_64", "aarch64"]

MACHINES: tuple[Machine, ...] = ("x86_64", "aarch64")
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
I386, ARM = 0x40000003, 0x40000028
ALLOW, KILL = 0x7FFF0000, 0x80000000


def carry_out(program: bytes, nr: int, *args: int, arch: int) -> int:
    """Interpret classic BPF as the kernel does for one call; a malformed program raises."""
    data = struct.pack("<iIQ6Q", ctypes.c_int(nr).value, arch, 0, *[*args, *[0] * 6][:6])
    instructions = list(struct.iter_unpack("<HBBI", program))
    accumulator = at = 0
    while True:
        code, jump_true, jump_false, k = instructions[at]
        at += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", data, k)
            case 0x54:
                accumulator &= k
            case 0x06:
                return int(k)
            case 0x15 | 0x25 | 0x35 | 0x45:
                holds = {
                    0x15: accumulator == k,
                    0x25: accumulator > k,
                    0x35: accumulator >= k,
                    0x45: accumulator & k != 0,
                }[code]
                at += jump_true if holds else jump_false
            case _:
                raise AssertionError(f"instruction {code:#x} is none that the filter should have")


@functools.cache
def filter_of(machine: Machine, network: Network, unix: bool) -> bytes:
    return seccomp.program(network=network, unix=unix, machine=machine)


def answer(machine: Machine, nr: int, *args: int, network: Network = "own", unix: bool = True) -> str:
    """Return "allow", "kill", or the name of the error."""
    action = carry_out(filter_of(machine, network, unix), nr, *args, arch=ARCH[machine])
    if action in (ALLOW, KILL):
        return "allow" if action == ALLOW else "kill"
    assert action & 0xFFFF0000 == 0x00050000
    return errno.errorcode[action & 0xFFFF]


# Name, x86_64, aarch64: written down a second time, from the kernel's headers, so that a row lost or mistyped in the
# tables of the filter is seen.
EPERM = """
    acct 163 89; add_key 248 217; adjtimex 159 171; bpf 321 280; chroot 161 51; clock_adjtime 305 266;
    clock_settime 227 112; delete_module 176 106; fanotify_init 300 262; finit_module 313 273; fsconfig 431 431;
    fsmount 432 432; fsopen 430 430; fspick 433 433; init_module 175 105; ioperm 173 -; iopl 172 -; kcmp 312 272;
    kexec_file_load 320 294; kexec_load 246 104; keyctl 250 219; mount 165 40; mount_setattr 442 442;
    move_mount 429 429; name_to_handle_at 303 264; open_by_handle_at 304 265; open_tree 428 428;
    perf_event_open 298 241; pidfd_getfd 438 438; pivot_root 155 41; process_vm_readv 310 270;
    process_vm_writev 311 271; ptrace 101 117; quotactl 179 60; quotactl_fd 443 443; reboot 169 142;
    request_key 249 218; setdomainname 171 162; sethostname 170 161; setns 308 268; settimeofday 164 170;
    swapoff 168 225; swapon 167 224; syslog 103 116; umount2 166 39; userfaultfd 323 282; vhangup 153 58
"""
ENOSYS = """
    _sysctl 156 -; clone3 435 435; create_module 174 -; get_kernel_syms 177 -; io_uring_enter 426 426;
    io_uring_register 427 427; io_uring_setup 425 425; listmount 458 458; lookup_dcookie 212 18; memfd_secret 447 447;
    modify_ldt 154 -; nfsservctl 180 42; open_tree_attr 467 467; openat2 437 437; query_module 178 -;
    statmount 457 457; uselib 134 -
"""
EPERM_WITHOUT_NAMESPACES = """
    mq_open 240 180; mq_unlink 241 181; msgctl 71 187; msgget 68 186; msgrcv 70 188; msgsnd 69 189; semctl 66 191;
    semget 64 190; semop 65 193; semtimedop 220 192; shmat 30 196; shmctl 31 195; shmdt 67 197; shmget 29 194
"""
NOTSUP_WITHOUT_NAMESPACES = """
    setxattr 188 5; lsetxattr 189 6; fsetxattr 190 7; removexattr 197 14; lremovexattr 198 15; fremovexattr 199 16;
    setxattrat 463 463; removexattrat 466 466; file_setattr 469 469
"""
ARGUMENTS_TOLD_APART = """
    chmod 90 -; creat 85 -; fchmod 91 52; fchmodat 268 53; fchmodat2 452 452; mknod 133 -; mknodat 259 33; open 2 -;
    openat 257 56; clone 56 220; ioctl 16 29; personality 135 92; prctl 157 167; prlimit64 302 261; sendmmsg 307 269;
    sendmsg 46 211; sendto 44 206; setpriority 141 140; socket 41 198; socketpair 53 199; unshare 272 97;
    ioprio_set 251 30; sched_setaffinity 203 122; sched_setattr 314 274; sched_setparam 142 118;
    sched_setscheduler 144 119
"""


def numbers(table: str, machine: Machine) -> dict[str, int]:
    rows = [row.split() for row in table.replace("\n", " ").split(";")]
    found = {row[0]: row[1 + MACHINES.index(machine)] for row in rows}
    return {name: int(number) for name, number in found.items() if number != "-"}


def numbers_of(*tables: str) -> dict[Machine, dict[str, int]]:
    return {machine: numbers(";".join(tables), machine) for machine in MACHINES}


NR = numbers_of(ARGUMENTS_TOLD_APART)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("network", ["own", "none"])
def test_exactly_the_named_calls_are_refused_whatever_their_arguments(machine: Machine, network: Network) -> None:
    """The filter refuses exactly the calls in the tables, each with its own error."""
    expected = dict.fromkeys(range(HIGHEST + 1), "allow")
    eperm = EPERM if network == "own" else f"{EPERM};{EPERM_WITHOUT_NAMESPACES}"
    expected |= dict.fromkeys(numbers(eperm, machine).values(), "EPERM")
    expected |= dict.fromkeys(numbers(ENOSYS, machine).values(), "ENOSYS")
    if network == "none":
        expected |= dict.fromkeys(numbers(NOTSUP_WITHOUT_NAMESPACES, machine).values(), "ENOTSUP")
    told_apart = set(NR[machine].values())
    for nr in expected.keys() - told_apart:
        for argument in (0, 1, 2**64 - 1):
            assert answer(machine, nr, *[argument] * 6, network=network) == expected[nr], nr


UNIX, INET, INET6, NETLINK, PACKET, ALG, VSOCK, XDP = 1, 2, 10, 16, 17, 38, 40, 44
STREAM, DGRAM, RAW, SEQPACKET, SOCK_PACKET = 1, 2, 3, 5, 10
FLAGS = 0x80000 | 0x800
FAST_OPEN = 0x20000000
MMSG_NOSIGNAL = 0x4000
TOO_WIDE = 1 << 32

CREATE, TMPFILE, CLOEXEC = 0o100, 0o20200000, 0o2000000

ALWAYS: list[tuple[str, tuple[int, ...], str]] = [
    *[
        case
        for bit in (0o4000, 0o2000, 0o6000)
        for case in [
            ("chmod", (0, bit | 0o755), "EPERM"),
            ("fchmod", (3, bit), "EPERM"),
            ("fchmodat", (3, 0, bit | 0o100), "EPERM"),
            ("fchmodat2", (3, 0, bit, 0), "EPERM"),
            ("creat", (0, bit | 0o644), "EPERM"),
            ("mknod", (0, 0o100000 | bit, 0), "EPERM"),
            ("mknodat", (3, 0, bit, 0), "EPERM"),
            ("open", (0, CREATE | CLOEXEC, bit | 0o755), "EPERM"),
            ("open", (0, TMPFILE | 2, bit), "EPERM"),
            ("openat", (3, 0, CREATE, bit | 0o755), "EPERM"),
            ("openat", (3, 0, TMPFILE | 2, bit), "EPERM"),
            ("openat", (3, 0, CREATE + TOO_WIDE, bit + TOO_WIDE), "EPERM"),
            ("open", (0, CLOEXEC, bit), "allow"),  # without a file to be made there is no mode, but what lay about
            ("openat", (3, 0, 0, bit), "allow"),
        ]
    ],
    ("chmod", (0, 0o1777), "allow"),
    ("fchmodat", (0o4000, 0o4000, 0o755), "allow"),
    ("creat", (0, 0o666), "allow"),
    ("mknod", (0, 0o010644, 0), "allow"),  # a pipe
    ("mknodat", (3, 0, 0o010644, 0), "allow"),
    ("open", (0, CREATE, 0o1666), "allow"),
    ("openat", (3, 0, CREATE | CLOEXEC, 0o666), "allow"),
    ("ioctl", (0, 0x5401), "allow"),  # TCGETS
    ("ioctl", (0x5412, 0x5413), "allow"),  # the descriptor's number is no command
    ("ioctl", (0, 0x5412), "EPERM"),
    ("ioctl", (0, 0x5412 + TOO_WIDE), "EPERM"),
    ("ioctl", (0, 0x541C), "EPERM"),
    ("ioctl", (0, 0x5423), "EPERM"),
    ("prctl", (15,), "allow"),  # PR_SET_NAME
    ("prctl", (1, 9), "allow"),  # PR_SET_PDEATHSIG
    ("prctl", (22, 2), "allow"),  # PR_SET_SECCOMP
    ("prctl", (35,), "EPERM"),
    ("prctl", (0x59616D61,), "EPERM"),
    ("clone", (0x1200011,), "allow"),  # as fork
    ("clone", (0x4111,), "allow"),  # as vfork
    ("clone", (0x3D0F00,), "allow"),  # as pthread_create
    ("clone", (0x80 | 17,), "allow"),  # a signal's bit, not CLONE_NEWTIME
    *[("clone", (bit | 17,), "EPERM") for bit in (1 << 17, 1 << 25, 1 << 26, 1 << 27, 1 << 28, 1 << 29, 1 << 30)],
    ("unshare", (0x600,), "allow"),  # CLONE_FS | CLONE_FILES
    *[("unshare", (bit,), "EPERM") for bit in (128, 1 << 17, 1 << 25, 1 << 26, 1 << 27, 1 << 28, 1 << 29, 1 << 30)],
    ("personality", (0xFFFFFFFF,), "allow"),
    ("personality", (0,), "allow"),
    ("personality", (0x8,), "allow"),
    ("personality", (0x20000,), "allow"),
    ("personality", (0x20008,), "allow"),
    ("personality", (0x40000,), "allow"),
    ("personality", (0x400000,), "EPERM"),  # READ_IMPLIES_EXEC
    ("personality", (0x0100000,), "EPERM"),  # MMAP_PAGE_ZERO
    ("sendto", (3, 0, 0, MMSG_NOSIGNAL), "allow"),
    ("sendto", (FAST_OPEN, 0, FAST_OPEN, 0), "allow"),
    ("sendto", (3, 0, 0, FAST_OPEN | MMSG_NOSIGNAL), "ENOTSUP"),
    ("sendmsg", (3, 0, MMSG_NOSIGNAL), "allow"),
    ("sendmsg", (3, 0, FAST_OPEN), "ENOTSUP"),
    ("sendmmsg", (3, 0, FAST_OPEN, 0), "allow"),
    ("sendmmsg", (3, 0, 1, FAST_OPEN), "ENOTSUP"),
    ("socketpair", (UNIX, STREAM), "allow"),
    ("socketpair", (UNIX, SEQPACKET), "allow"),
    ("socketpair", (30, STREAM), "EAFNOSUPPORT"),  # TIPC
    ("socket", (UNIX, STREAM | FLAGS), "allow"),
    ("socket", (UNIX, DGRAM), "allow"),
    ("socket", (UNIX, SEQPACKET), "allow"),
    ("socket", (UNIX, RAW), "EPROTONOSUPPORT"),
    *[("socket", (domain, RAW), "EAFNOSUPPORT") for domain in range(48) if domain not in (UNIX, INET, INET6, NETLINK)],
]
OWN: list[tuple[str, tuple[int, ...], str]] = [
    ("prlimit64", (1, 0, 1), "allow"),
    ("setpriority", (2, 0, 19), "allow"),
    ("sched_setaffinity", (1, 8), "allow"),
    *[
        case
        for domain in (INET, INET6)
        for case in [
            ("socket", (domain, STREAM | FLAGS, 0), "allow"),
            ("socket", (domain, STREAM, 6), "allow"),
            ("socket", (domain, DGRAM, 0), "allow"),
            ("socket", (domain, DGRAM | FLAGS, 17), "allow"),
            ("socket", (domain, STREAM, 262), "EPROTONOSUPPORT"),  # MPTCP
            ("socket", (domain, STREAM, 132), "EPROTONOSUPPORT"),  # SCTP
            ("socket", (domain, SEQPACKET, 0), "EPROTONOSUPPORT"),  # SCTP
            ("socket", (domain, DGRAM, 1), "EPROTONOSUPPORT"),  # ICMP
            ("socket", (domain, DGRAM, 58), "EPROTONOSUPPORT"),  # ICMPv6
            ("socket", (domain, DGRAM, 136), "EPROTONOSUPPORT"),  # UDP-Lite
            ("socket", (domain, RAW, 6), "EPROTONOSUPPORT"),
            ("socket", (domain, RAW | FLAGS, 255), "EPROTONOSUPPORT"),
            ("socket", (domain, SOCK_PACKET, 0), "EPROTONOSUPPORT"),
            ("socket", (domain + TOO_WIDE, RAW + TOO_WIDE, 6), "EPROTONOSUPPORT"),
            ("socket", (domain, STREAM, 262 + TOO_WIDE), "EPROTONOSUPPORT"),
        ]
    ],
    ("socket", (NETLINK, RAW | FLAGS, 0), "allow"),
    *[("socket", (NETLINK, RAW, protocol), "EPROTONOSUPPORT") for protocol in range(1, 23)],
]
NONE: list[tuple[str, tuple[int, ...], str]] = [
    ("socket", (INET, STREAM, 0), "EAFNOSUPPORT"),
    ("socket", (INET, DGRAM, 0), "EAFNOSUPPORT"),
    ("socket", (INET6, STREAM, 6), "EAFNOSUPPORT"),
    ("socket", (NETLINK, RAW, 0), "EAFNOSUPPORT"),
    ("prlimit64", (0, 7, 0x7FFC00000000), "allow"),
    ("prlimit64", (1, 7, 0, 0x7FFC00000000), "allow"),  # only asks
    ("prlimit64", (1, 7, 0x7FFC00000000), "EPERM"),
    ("prlimit64", (1, 7, 0x1000), "EPERM"),
    ("prlimit64", (TOO_WIDE, 7, 8), "allow"),  # a pid is an int: this one is 0
    ("setpriority", (0, 0, 5), "allow"),
    ("setpriority", (1, 0, 19), "EPERM"),
    ("setpriority", (2, 0, 19), "EPERM"),
    ("setpriority", (0, 1, 19), "EPERM"),
    ("ioprio_set", (1, 0, 7), "allow"),
    ("ioprio_set", (1, 1, 7), "EPERM"),
    ("ioprio_set", (3, 0, 7), "EPERM"),
    *[
        (name, (pid, 8, 0), found)
        for name in ("sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler")
        for pid, found in ((0, "allow"), (1, "EPERM"))
    ],
]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("network", "cases"), [("own", ALWAYS + OWN), ("none", ALWAYS + NONE)], ids=["own", "none"])
def test_some_calls_are_refused_for_their_arguments(
    machine: Machine, network: Network, cases: list[tuple[str, tuple[int, ...], str]]
) -> None:
    """The lower halves of the arguments decide, which are all that the kernel uses."""
    wrong = [
        (name, args, expected, found)
        for name, args, expected in cases
        if name in NR[machine]  # aarch64 has no `chmod`, only `fchmodat`, and so on
        and (found := answer(machine, NR[machine][name], *args, network=network)) != expected
    ]
    assert wrong == []


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("network", ["own", "none"])
def test_without_unix_sockets_only_connected_pairs_are_made(machine: Machine, network: Network) -> None:
    """A pair connects to nothing outside; a socket with a name could."""
    socket, pair = NR[machine]["socket"], NR[machine]["socketpair"]
    assert answer(machine, socket, UNIX, STREAM, network=network, unix=False) == "EAFNOSUPPORT"
    assert answer(machine, pair, UNIX, STREAM, network=network, unix=False) == "allow"


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_of_another_machine_are_deadly(machine: Machine) -> None:
    """Their numbers mean other calls: 41 is `socket` on x86_64 and `dup` on i386."""
    for arch in {I386, ARM, *ARCH.values()} - {ARCH[machine]}:
        for nr in (0, 41, 198, HIGHEST, HIGHEST + 1):
            assert carry_out(filter_of(machine, "own", True), nr, arch=arch) == KILL


def test_calls_of_x32_are_deadly() -> None:
    """They arrive with the arch of x86_64. -1 has their bit as well, and is a skipped call."""
    for nr in (0x40000000, 0x40000000 | 41, 0x40000000 | 520, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE):
        assert answer("x86_64", nr) == "kill"
    assert answer("x86_64", 0xFFFFFFFF) == "ENOSYS"


@given(machine=st.sampled_from(MACHINES), nr=st.integers(HIGHEST + 1, 0x3FFFFFFF), args=st.lists(st.integers(0, 9)))
def test_a_call_not_known_yet_does_not_exist(machine: Machine, nr: int, args: list[int]) -> None:
    """Its effect is unknown. Programs have an alternative, because older kernels lack it."""
    assert answer(machine, nr, *args) == "ENOSYS"


@given(data=st.data(), machine=st.sampled_from(MACHINES), args=st.lists(st.integers(0, 2**64 - 1), max_size=6))
def test_the_upper_half_of_an_argument_changes_nothing(data: st.DataObject, machine: Machine, args: list[int]) -> None:
    """The kernel drops it, so it must not change the decision. `prlimit64`'s pointer is an exception."""
    nr = NR[machine][data.draw(st.sampled_from(sorted(NR[machine].keys() - {"prlimit64"})))]
    assert answer(machine, nr, *args) == answer(machine, nr, *[argument & 0xFFFFFFFF for argument in args])


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("network", ["own", "none"])
def test_every_jump_stays_within_and_every_road_ends(machine: Machine, network: Network) -> None:
    """The kernel demands this of a program, and the test also covers the other machine."""
    instructions = list(struct.iter_unpack("<HBBI", seccomp.program(network=network, machine=machine)))
    assert instructions[-1][0] == 0x06
    for at, (code, jump_true, jump_false, k) in enumerate(instructions):
        if code & 0x07 == 0x05:
            assert at + 1 + max(jump_true, jump_false) < len(instructions)
        if code == 0x20:
            assert k % 4 == 0
            assert k < 64


def test_the_numbers_are_the_kernels_own() -> None:
    """Each number known to this machine's headers, for either machine, equals the table's."""
    headers = {
        "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        "aarch64": Path("/usr/include/asm-generic/unistd.h"),
    }
    if not all(header.exists() for header in headers.values()):
        pytest.skip("the kernel's headers (linux-libc-dev) are not installed")
    for machine, header in headers.items():
        found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)$", header.read_text(), re.MULTILINE)
        known = {name: int(number) for name, number in found}
        column = MACHINES.index(machine)
        tables = UNKNOWN | REFUSED | SHARED | TOLD_APART
        ours = {name: pair[column] for name, pair in tables.items()}
        assert len(ours.items() & known.items()) >= 75
        assert {
            name: (ours[name], known[name]) for name in ours.keys() & known.keys() if ours[name] != known[name]
        } == {}


def test_a_machine_without_a_filter_is_named() -> None:
    """A filter for another machine would refuse the wrong calls."""
    with pytest.raises(OSError, match="riscv64 has no filter of system calls; known are x86_64, aarch64"):
        seccomp.program(network="own", machine="riscv64")


# From here on, the filter is installed on a real process.

on_linux = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in MACHINES, reason="the filter is for Linux on known machines"
)

CHILD = """
import ctypes, json, os, sys
sys.path.insert(0, sys.argv[1])
from forgepool.workers.sandbox.launch import seccomp

libc = ctypes.CDLL(None, use_errno=True)

def call(nr, *args):
    ctypes.set_errno(0)
    got = libc.syscall(*[ctypes.c_long(a - 2**64 if a >= 2**63 else a) for a in (nr, *args)])
    return ctypes.get_errno() if got == -1 else 0
"""


NONSENSE = [2**64 - 1] * 6
"""Arguments with which no call has an effect, in case it is not refused and the tests run as root."""


def run_child(script: str, *args: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", "-S", "-c", CHILD + script, str(TREE), *args]
    return subprocess.run(
        argv,
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


@on_linux
@pytest.mark.parametrize("network", ["own", "none"])
def test_the_kernel_refuses_what_the_program_refuses(network: Network) -> None:
    """Every refused call is really made under the installed filter, and gives the filter's error."""
    machine: Machine = "x86_64" if platform.machine() == "x86_64" else "aarch64"
    tables = f"{EPERM};{EPERM_WITHOUT_NAMESPACES}" if network == "none" else EPERM
    wanted = {name: [nr, NONSENSE, "EPERM"] for name, nr in numbers(tables, machine).items()}
    wanted |= {name: [nr, NONSENSE, "ENOSYS"] for name, nr in numbers(ENOSYS, machine).items()}
    if network == "none":
        table = numbers(NOTSUP_WITHOUT_NAMESPACES, machine)
        wanted |= {name: [nr, NONSENSE, "ENOTSUP"] for name, nr in table.items()}
    cases = ALWAYS + (OWN if network == "own" else NONE)
    for name, args, expected in cases:
        if expected != "allow":
            wanted[f"{name}{args}"] = [NR[machine][name], list(args), expected]
    wanted["not known yet"] = [HIGHEST + 1, NONSENSE, "ENOSYS"]
    script = """
seccomp.install(seccomp.program(network=sys.argv[2]))
print(json.dumps({name: call(nr, *args) for name, (nr, args, _) in json.loads(sys.argv[3]).items()}))
"""
    ran = run_child(script, network, json.dumps(wanted))
    assert ran.returncode == 0, ran.stderr
    found = {name: errno.errorcode.get(number) for name, number in json.loads(ran.stdout).items()}
    assert found == {name: expected for name, (_, _, expected) in wanted.items()}


@on_linux
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the calls of i386 and x32 are made on x86_64")
@pytest.mark.parametrize(
    ("way", "unfiltered"),
    [("libc.syscall(0x40000000 | 39)", 0), ("ctypes.CFUNCTYPE(ctypes.c_int)(code)()", None)],
    ids=["x32", "i386"],
)
def test_a_call_of_another_machine_ends_the_process(way: str, unfiltered: int | None) -> None:
    """Otherwise `int 0x80` or the bit of x32 would allow calls without any rule."""
    script = f"""
import mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid); int 0x80; ret
code = ctypes.addressof(ctypes.c_char.from_buffer(page))
if sys.argv[2] == "filtered":
    seccomp.install(seccomp.program(network="own"))
{way}
"""
    assert run_child(script, "filtered").returncode == -signal.SIGSYS
    assert unfiltered is None or run_child(script, "open").returncode == unfiltered


@on_linux
def test_a_filter_holds_for_programs_started_and_cannot_be_lifted() -> None:
    """It survives exec, set-uid programs gain no rights, and a further filter only refuses more."""
    script = """
seccomp.install(seccomp.program(network="own"))
seccomp.install(seccomp.program(network="none"))
os.execv("/bin/grep", ["grep", "-E", "^(NoNewPrivs|Seccomp|Seccomp_filters):", "/proc/self/status"])
"""
    ran = run_child(script)
    assert ran.stdout.split() == ["NoNewPrivs:", "1", "Seccomp:", "2", "Seccomp_filters:", "2"], ran.stderr


@on_linux
def test_a_program_that_is_none_is_not_installed() -> None:
    """The kernel's refusal is raised. Otherwise the process would wrongly believe it is confined."""
    ran = run_child("seccomp.install(b'\\x06' + bytes(7) + b'\\xff' * 8)")
    assert ran.returncode == 1
    assert "OSError: [Errno 22] the kernel takes no filter of system calls: Invalid argument" in ran.stderr


ORDINARY = """
import asyncio, fcntl, mmap, multiprocessing, pty, resource, socket, subprocess, sys, tempfile, termios, threading, time

def double(n):
    return 2 * n

async def talk():
    async def serve(reader, writer):
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"hello\\n")
    answer = await reader.readline()
    writer.close()
    server.close()
    return answer

def main():
    import os
    done = []
    def works(what, ok):
        done.append(what)
        assert ok, what
    thread = threading.Thread(target=done.append, args=("thread",))
    thread.start()
    thread.join()
    ran = subprocess.run(["/bin/sh", "-c", "echo $((6*7)) | cat"], capture_output=True)
    works("subprocess", ran.stdout == b"42\\n")
    works("preexec", subprocess.run(["/bin/true"], preexec_fn=os.getpid, start_new_session=True).returncode == 0)
    works("posix_spawn", os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)[1] == 0)
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    works("fork", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        works("pool", pool.map(double, [1, 2, 3]) == [2, 4, 6])
    with multiprocessing.get_context("forkserver").Pool(1) as pool:
        works("forkserver", pool.map(double, [4]) == [8])
    works("lock", multiprocessing.Lock().acquire())
    left, right = socket.socketpair()
    left.sendmsg([b"x"])
    works("socketpair", right.recv(1) == b"x")
    works("asyncio over TCP", asyncio.run(talk()) == b"hello\\n")
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        datagrams = socket.socket(family, socket.SOCK_DGRAM)
        try:
            datagrams.bind((host, 0))
        except OSError:
            continue  # a host without IPv6
        datagrams.sendto(b"y", datagrams.getsockname())
        works("UDP", datagrams.recv(1) == b"y")
    with tempfile.TemporaryDirectory() as folder:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(folder + "/socket")
        listener.listen()
        socket.socket(socket.AF_UNIX).connect(folder + "/socket")
        works("UNIX socket", True)
    works("names", socket.getaddrinfo("localhost", 80))
    works("interfaces", socket.if_nameindex())
    works("file by name of memory", os.memfd_create("m"))
    works("shared memory", mmap.mmap(-1, 4096))
    master, slave = pty.openpty()
    termios.tcgetattr(slave)
    fcntl.ioctl(slave, termios.TIOCGWINSZ, bytes(8))
    os.write(master, b"typed\\n")
    works("terminal", os.read(slave, 10) == b"typed\\n")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.prlimit(0, resource.RLIMIT_NOFILE)
    os.nice(1)
    os.sched_getaffinity(0)
    works("limits", True)
    print(len(done))

if __name__ == "__main__":
    main()
"""


@on_linux
def test_ordinary_programs_see_nothing_of_the_filter(tmp_path: Path) -> None:
    """Processes, threads, pools, loopback sockets, terminals and limits work as in a test suite."""
    script = tmp_path / "ordinary.py"
    script.write_text(ORDINARY)
    run_it = """
seccomp.install(seccomp.program(network="own"))
os.execv(sys.executable, [sys.executable, "-W", "ignore", sys.argv[2]])
"""
    ran = run_child(run_it, str(script))
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) >= 17


# Each prints "fine" where the program is there and works.
PROGRAMS = {
    "gcc": "echo 'int main(){return 3;}' >a.c && gcc a.c -o a && { ./a; [ $? = 3 ]; }",
    "git": "git init -q r && cd r && git -c user.name=a -c user.email=b commit -q --allow-empty -m c && git log | cat",
    "make": "printf 'all: x y\\nx y:\\n\\techo $@\\n' >Makefile && make -j4",
    "node": "node -e \"const c=require('child_process');const s=require('net').createServer(k=>k.end('hi'));"
    "s.listen(0,'127.0.0.1',()=>require('net').connect(s.address().port,'127.0.0.1').on('data',()=>{"
    "c.execSync('true');new (require('worker_threads').Worker)('process.exit(0)',{eval:true}).on('exit',()=>"
    'process.exit(0))}))"',
    "java": "java -Xshare:auto -version",
    "go": "go version",
    "rustc": "echo 'fn main(){std::process::Command::new(\"true\").status().unwrap();}' >a.rs && rustc a.rs && ./a",
}


@on_linux
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_of_the_trade_run_under_the_filter(program: str, tmp_path: Path) -> None:
    """Compilers and interpreters start threads and processes each in their own way."""
    if shutil.which(program) is None:
        pytest.skip(f"no {program} here")
    run_it = """
os.chdir(sys.argv[2])
seccomp.install(seccomp.program(network="own"))
os.execv("/bin/sh", ["sh", "-c", sys.argv[3]])
"""
    ran = run_child(run_it, str(tmp_path), PROGRAMS[program])
    assert ran.returncode == 0, ran.stdout + ran.stderr


# This Python may be anywhere, even below /tmp.
_PYTHON = [word for each in {sys.prefix, sys.base_prefix} for word in ("--ro-bind", each, each)]


def bwrap(script: str, *, given: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run a shell in bubblewrap, with the filter passed as the launcher passes it."""
    with tempfile.TemporaryFile() as file:
        file.write(seccomp.program(network="own"))
        file.seek(0)
        argv = ["bwrap", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--unshare-all"]
        argv += ["--die-with-parent", "--cap-drop", "ALL", "--seccomp", str(file.fileno()), *given]
        argv += ["/bin/sh", "-c", script]
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, pass_fds=(file.fileno(),))


@pytest.fixture
def bubblewrap() -> None:
    """Skip where bubblewrap is missing or may not make namespaces, but fail in CI."""
    ran = bwrap("true") if shutil.which("bwrap") else None
    if ran is None or ran.returncode != 0:
        why = ran.stderr.strip() if ran else "bubblewrap is not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)


@on_linux
@pytest.mark.usefixtures("bubblewrap")
def test_bubblewrap_takes_the_filter_for_its_own_first_process_too() -> None:
    """Otherwise the command could write its code into process 1, which would be free of the filter."""
    ran = bwrap("cat /proc/1/status /proc/self/status; unshare -U true; mount -t tmpfs none /mnt; echo over")
    assert ran.stdout.count("Seccomp:\t2\n") == 2
    assert ran.stdout.endswith("over\n")
    assert "unshare failed: Operation not permitted" in ran.stderr


@on_linux
@pytest.mark.usefixtures("bubblewrap")
def test_ordinary_programs_run_in_bubblewrap_under_the_filter(tmp_path: Path) -> None:
    """bubblewrap's own waiting and reaping is under the filter, too."""
    script = tmp_path / "ordinary.py"
    script.write_text(ORDINARY)
    place = str(tmp_path)
    ran = bwrap(f"{sys.executable} -W ignore {script}; (sleep 0 &); exit $?", given=["--bind", place, place, *_PYTHON])
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) >= 17
