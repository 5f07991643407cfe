"""
The filter of system calls that a confined command runs under, and how it is laid on the calling process.

The filter allows what it does not name. It is one straight list of blocks, each of which looks at one call and, where
it is that call, ends in an answer: no jump leaves its block, so what a block does can be read in it alone. A call that
is always allowed costs nothing, because the kernel (5.11 and later) remembers that for the whole filter.

How a call is refused: with EPERM where programs know that they may lack the right; as a kernel without it answers
(ENOSYS, EAFNOSUPPORT...) where they have another way then, as the C library has for `clone3`. The numbers of another
machine's calls (i386 and x32 on x86_64) mean something else, so whoever makes one is killed.

Standard library only: the launcher imports this without site-packages. Not here: what keeps a command from files,
from the network and from other processes (`workers.sandbox.launch.landlock`, bubblewrap's namespaces).
"""

import ctypes
import errno
import os
import struct

from forgepool.workers.sandbox.launch import calls

Numbers = tuple[int | None, int | None]

HIGHEST = 469
"""The last call known here, `file_setattr` of Linux 6.17. What came later is unknown, and refused as that."""

UNKNOWN: dict[str, Numbers] = {
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "statmount": (457, 457),
    "listmount": (458, 458),
    "open_tree_attr": (467, 467),
    "memfd_secret": (447, 447),
    "openat2": (437, 437),
    "_sysctl": (156, None),
    "create_module": (174, None),
    "get_kernel_syms": (177, None),
    "query_module": (178, None),
    "uselib": (134, None),
    "nfsservctl": (180, 42),
    "lookup_dcookie": (212, 18),
    "modify_ldt": (154, None),
}
"""Refused as a kernel without them does: who asks for one of these has another way."""

REFUSED: dict[str, Numbers] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsmount": (432, 432),
    "fsconfig": (431, 431),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "chroot": (161, 51),
    "setns": (308, 268),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
}
"""Refused as for want of a right."""

SHARED: dict[str, Numbers] = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "semctl": (66, 191),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}
"""System V IPC and message queues: without a namespace of its own a process shares them with the whole host."""

TOLD_APART: dict[str, Numbers] = {
    "chmod": (90, None),
    "clone": (56, 220),
    "creat": (85, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "ioctl": (16, 29),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "open": (2, None),
    "openat": (257, 56),
    "personality": (135, 92),
    "prctl": (157, 167),
    "prlimit64": (302, 261),
    "sendmmsg": (307, 269),
    "sendmsg": (46, 211),
    "sendto": (44, 206),
    "setpriority": (141, 140),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "unshare": (272, 97),
}
"""Refused for some of their arguments."""


TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` would take longer to import than all of the rest.
    from typing import Literal

Instruction = tuple[int, int, int, int]
"""A `struct sock_filter`: code, how many to skip where the comparison holds, how many where not, and its constant."""
Block = list[Instruction]

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Which of a call's numbers is the machine's, and its AUDIT_ARCH."""
_X32 = 0x40000000
"""Set in the numbers of x32's calls, and in the -1 of a call that a debugger skipped."""

_LOAD, _AND, _EQUAL, _ABOVE, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16
"""Where `struct seccomp_data` has them."""
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2

_NEW_NAMESPACE = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""
_NEW_TIME = 0x80
"""CLONE_NEWTIME; in `clone` this bit belongs to the signal that a child ends with."""
_HARMLESS_PERSONALITIES = (0, 0x8, 0x20000, 0x20008, 0x40000, 0xFFFFFFFF)
"""Linux, 32 bit, UNAME26, both, ADDR_NO_RANDOMIZE (for the thread sanitizer), and the question which it is."""
_TERMINAL = (0x5412, 0x541C, 0x5423)
"""TIOCSTI types into a terminal, TIOCLINUX into a console, TIOCSETD loads line disciplines into the kernel."""
_PR_SET_MM, _PR_SET_PTRACER = 35, 0x59616D61
_MSG_FASTOPEN = 0x20000000
_SET_ID = 0o6000
"""
The bits by which a program runs as its owner or group. A command's files are the user's on disk, and root's where root
runs the harness: with such a bit they would give the user's rights, or root's, to whoever on the host can run them.
"""
_MAKES_A_FILE = 0o20000100
"""O_CREAT and O_TMPFILE: only with these is there a mode in the arguments. `openat2` has it where no filter looks."""
_PRIO_PROCESS = 0

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _DGRAM, _SEQPACKET = 1, 2, 5
_TYPE_MASK = 0xF
_TCP, _UDP, _NETLINK_ROUTE = 6, 17, 0


def program(*, network: "Literal['own', 'none']", unix: bool = True, machine: str | None = None) -> bytes:
    """
    The filter as an array of `struct sock_filter`, as bubblewrap's `--seccomp` and `install` take it.

    `network` is "own" where the command has namespaces of its own (network, IPC, processes), "none" where it has none:
    then sockets of the internet, System V IPC, and limits and priorities of others' processes are refused too. Without
    `unix` no UNIX socket can be made save as a connected pair. `machine` is as in `uname -m`, this one where None.

    Raises:
        OSError: no filter is known for the machine.
    """
    named = machine or os.uname().machine
    if named not in _MACHINES:
        raise OSError(errno.ENOSYS, f"{named} has no filter of system calls; known are {', '.join(_MACHINES)}")
    column, arch = _MACHINES[named]
    filter_ = _foreign(arch)
    for name, body in _told_apart(network, unix).items():
        filter_ += _on(TOLD_APART[name], column, body)
    for numbers, answer in _refusals(network):
        filter_ += _on(numbers, column, _refuse(answer))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in filter_ + _answer(_ALLOW))


def install(program: bytes) -> None:
    """
    Lays the filter on the calling thread and on all it starts, for good.

    Raises:
        OSError: the kernel takes no filter; `no_new_privs` may stand all the same.
    """
    calls.give_up_privileges()
    instructions = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("@HP", len(program) // 8, ctypes.addressof(instructions))
    pointed = ctypes.create_string_buffer(described, len(described))
    otherwise = "the kernel takes no filter of system calls"
    calls.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(pointed), otherwise=otherwise)


def _refusals(network: str) -> list[tuple[Numbers, int]]:
    shared = SHARED.values() if network == "none" else ()
    return [(numbers, errno.ENOSYS) for numbers in UNKNOWN.values()] + [
        (numbers, errno.EPERM) for numbers in (*REFUSED.values(), *shared)
    ]


def _foreign(arch: int) -> Block:
    """Kills for another machine's call, refuses unknown ones. After it, what comparisons look at is the number."""
    x32 = _when(_AT_LEAST, _X32, _unless(_EQUAL, 0xFFFFFFFF, _answer(_KILL)))
    return [
        (_LOAD, 0, 0, _ARCH_AT),
        *_unless(_EQUAL, arch, _answer(_KILL)),
        (_LOAD, 0, 0, _NUMBER_AT),
        *(x32 if arch == _MACHINES["x86_64"][1] else []),
        *_when(_ABOVE, HIGHEST, _refuse(errno.ENOSYS)),
    ]


def _told_apart(network: str, unix: bool) -> dict[str, Block]:
    """What becomes of the calls that are refused for some arguments; those made often stand first."""
    always: dict[str, Block] = {
        "openat": _refuse_made(2, 3),
        "open": _refuse_made(1, 2),
        "sendto": _refuse_bits(3, _MSG_FASTOPEN, errno.EOPNOTSUPP),
        "sendmsg": _refuse_bits(2, _MSG_FASTOPEN, errno.EOPNOTSUPP),
        "sendmmsg": _refuse_bits(3, _MSG_FASTOPEN, errno.EOPNOTSUPP),
        "chmod": _refuse_bits(1, _SET_ID, errno.EPERM),
        "fchmod": _refuse_bits(1, _SET_ID, errno.EPERM),
        "fchmodat": _refuse_bits(2, _SET_ID, errno.EPERM),
        "fchmodat2": _refuse_bits(2, _SET_ID, errno.EPERM),
        "creat": _refuse_bits(1, _SET_ID, errno.EPERM),
        "mknod": _refuse_bits(1, _SET_ID, errno.EPERM),
        "mknodat": _refuse_bits(2, _SET_ID, errno.EPERM),
        "ioctl": _refuse_values(1, _TERMINAL),
        "prctl": _refuse_values(0, (_PR_SET_MM, _PR_SET_PTRACER)),
        "clone": _refuse_bits(0, _NEW_NAMESPACE, errno.EPERM),
        "unshare": _refuse_bits(0, _NEW_NAMESPACE | _NEW_TIME, errno.EPERM),
        "personality": _allow_values(0, _HARMLESS_PERSONALITIES, errno.EPERM),
        "socket": _sockets(network, unix),
        "socketpair": _allow_values(0, (_UNIX,), errno.EAFNOSUPPORT),
    }
    return always if network == "own" else always | _other_processes()


def _other_processes() -> dict[str, Block]:
    """A limit set for another process can end it; PRIO_USER and PRIO_PGRP are for many at once."""
    sets_nothing = [_argument(2), *_unless(_EQUAL, 0, _refuse(errno.EPERM))]
    sets_nothing += [_argument(2, upper=True), *_unless(_EQUAL, 0, _refuse(errno.EPERM)), *_answer(_ALLOW)]
    return {
        "prlimit64": [_argument(0), *_unless(_EQUAL, 0, sets_nothing), *_answer(_ALLOW)],
        "setpriority": _allow_values(0, (_PRIO_PROCESS,), errno.EPERM),
    }


def _sockets(network: str, unix: bool) -> Block:
    """By domain, type and protocol. MPTCP, SCTP, ICMP, raw sockets and AF_VSOCK are among all that is not named."""
    body: Block = [_argument(0)]
    if unix:
        body += _when(_EQUAL, _UNIX, [*_only_types(_STREAM, _DGRAM, _SEQPACKET), *_answer(_ALLOW)])
    if network == "own":
        internet = [*_only_types(_STREAM, _DGRAM), *_allow_values(2, (0, _TCP, _UDP), errno.EPROTONOSUPPORT)]
        body += _when(_EQUAL, _INET, internet) + _when(_EQUAL, _INET6, internet)
        body += _when(_EQUAL, _NETLINK, _allow_values(2, (_NETLINK_ROUTE,), errno.EPROTONOSUPPORT))
    return body + _refuse(errno.EAFNOSUPPORT)


def _only_types(*types: int) -> Block:
    """Goes on where the second argument, without its flags, is one of these."""
    otherwise = _refuse(errno.EPROTONOSUPPORT)
    for type_ in types:
        otherwise = _unless(_EQUAL, type_, otherwise)
    return [_argument(1), (_AND, 0, 0, _TYPE_MASK), *otherwise]


def _refuse_made(flags: int, mode: int) -> Block:
    made = _when(_ANY_BIT, _MAKES_A_FILE, [_argument(mode), *_when(_ANY_BIT, _SET_ID, _refuse(errno.EPERM))])
    return [_argument(flags), *made, *_answer(_ALLOW)]


def _refuse_bits(index: int, bits: int, answer: int) -> Block:
    return [_argument(index), *_when(_ANY_BIT, bits, _refuse(answer)), *_answer(_ALLOW)]


def _refuse_values(index: int, values: tuple[int, ...]) -> Block:
    return [_argument(index), *_any_of(values, _refuse(errno.EPERM)), *_answer(_ALLOW)]


def _allow_values(index: int, values: tuple[int, ...], otherwise: int) -> Block:
    return [_argument(index), *_any_of(values, _answer(_ALLOW)), *_refuse(otherwise)]


def _any_of(values: tuple[int, ...], then: Block) -> Block:
    return [instruction for value in values for instruction in _when(_EQUAL, value, then)]


def _on(numbers: Numbers, column: int, then: Block) -> Block:
    """Nothing, on a machine without the call. `then` ends in an answer: it may have loaded over the number."""
    number = numbers[column]
    return [] if number is None else _when(_EQUAL, number, then)


def _argument(index: int, *, upper: bool = False) -> Instruction:
    """
    Loads half of an argument; both machines are little-endian.

    The lower one is all that the kernel itself looks at of an `int`. Comparing more would let through what it then
    cuts: TIOCSTI with a bit set above is TIOCSTI.
    """
    return (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * index + 4 * upper)


def _when(comparison: int, value: int, then: Block) -> Block:
    return [(comparison, 0, len(then), value), *then]


def _unless(comparison: int, value: int, then: Block) -> Block:
    return [(comparison, len(then), 0, value), *then]


def _refuse(answer: int) -> Block:
    return _answer(_ERRNO | answer)


def _answer(action: int) -> Block:
    return [(_RETURN, 0, 0, action)]
