"""
The filter of system calls that a confined command runs under.

The filter allows what it does not name. It is one straight list of blocks. Each block looks at one call and, for that
call, ends in an answer; no jump leaves its block, so a block can be read alone. A call that is always allowed costs
nothing, because the kernel (5.11 and later) remembers that for the whole filter.

A refused call returns EPERM where programs expect to lack the right. It answers like a kernel without the call (ENOSYS,
EAFNOSUPPORT...) where programs then take another way, as the C library does for `clone3`. The call numbers of another
architecture (i386 and x32 on x86_64) mean something else, so the process that uses them is killed.

Standard library only: the launcher imports this without site-packages. Access to files, the network and other processes
is limited elsewhere (`landlock`, bubblewrap's namespaces).
"""

import ctypes
import errno
import os
import struct

from forgepool.worktrees.git.landlock import call, give_up_privileges, prctl

Numbers = tuple[int, int | None]
"""A call's numbers on x86_64 and aarch64."""

HIGHEST = 469
"""The last known call, `file_setattr` of Linux 6.17. Later calls are refused as unknown."""


def _numbers(table: str) -> dict[str, Numbers]:
    """Parse a table of `name x86_64 aarch64`; `-` is a call that aarch64 lacks."""
    entries = (entry.split() for entry in table.split(","))
    return {name: (int(first), None if second == "-" else int(second)) for name, first, second in entries}


UNKNOWN = _numbers("""
    clone3 435 435, io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427, statmount 457 457,
    listmount 458 458, open_tree_attr 467 467, memfd_secret 447 447, openat2 437 437, _sysctl 156 -,
    create_module 174 -, get_kernel_syms 177 -, query_module 178 -, uselib 134 -, nfsservctl 180 42,
    lookup_dcookie 212 18, modify_ldt 154 -
""")
"""Calls refused with ENOSYS: programs that try them have another way."""

REFUSED = _numbers("""
    ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, pidfd_getfd 438 438, kcmp 312 272,
    mount 165 40, umount2 166 39, pivot_root 155 41, move_mount 429 429, open_tree 428 428, fsopen 430 430,
    fsmount 432 432, fsconfig 431 431, fspick 433 433, mount_setattr 442 442, chroot 161 51, setns 308 268, bpf 321 280,
    perf_event_open 298 241, userfaultfd 323 282, fanotify_init 300 262, name_to_handle_at 303 264,
    open_by_handle_at 304 265, keyctl 250 219, add_key 248 217, request_key 249 218, kexec_load 246 104,
    kexec_file_load 320 294, init_module 175 105, finit_module 313 273, delete_module 176 106, reboot 169 142,
    swapon 167 224, swapoff 168 225, acct 163 89, quotactl 179 60, quotactl_fd 443 443, syslog 103 116, vhangup 153 58,
    iopl 172 -, ioperm 173 -, settimeofday 164 170, clock_settime 227 112, clock_adjtime 305 266, adjtimex 159 171,
    sethostname 170 161, setdomainname 171 162
""")
"""Calls refused with EPERM."""

SHARED = _numbers("""
    shmget 29 194, shmat 30 196, shmctl 31 195, shmdt 67 197, semget 64 190, semop 65 193, semtimedop 220 192,
    semctl 66 191, msgget 68 186, msgsnd 69 189, msgrcv 70 188, msgctl 71 187, mq_open 240 180, mq_unlink 241 181
""")
"""System V IPC and message queues: a process without its own namespace shares them with the whole host."""

ATTRIBUTES = _numbers("""
    setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, setxattrat 463 463, removexattr 197 14, lremovexattr 198 15,
    fremovexattr 199 16, removexattrat 466 466, file_setattr 469 469
""")
"""
Calls refused with EOPNOTSUPP, as by a file system without attributes, where no namespace hides files outside. A filter
does not see which file they are about, so this holds for a command's own files too. Programs that copy files go on.
"""

TOLD_APART = _numbers("""
    chmod 90 -, clone 56 220, creat 85 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452, ioctl 16 29,
    ioprio_set 251 30, mknod 133 -, mknodat 259 33, open 2 -, openat 257 56, personality 135 92, prctl 157 167,
    prlimit64 302 261, sched_setaffinity 203 122, sched_setattr 314 274, sched_setparam 142 118,
    sched_setscheduler 144 119, sendmmsg 307 269, sendmsg 46 211, sendto 44 206, setpriority 141 140, socket 41 198,
    socketpair 53 199, unshare 272 97
""")
"""Calls refused for some of their arguments."""

LOOK_UPS = _numbers("""
    open 2 -, openat 257 56, stat 4 -, lstat 6 -, newfstatat 262 79, statx 332 291, access 21 -, faccessat 269 48,
    faccessat2 439 439, readlink 89 -, readlinkat 267 78, execve 59 221, execveat 322 281, chdir 80 49, link 86 -,
    linkat 265 37, symlink 88 -, symlinkat 266 36, mkdir 83 -, mkdirat 258 34
""")
"""Calls by which a program finds out what lies at a path; a traced command tells each of them before it happens."""


TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` would take longer to import than all of the rest.
    from typing import Literal

Instruction = tuple[int, int, int, int]
"""A `struct sock_filter`: code, instructions to skip if the comparison holds, to skip if not, and the constant."""
Block = list[Instruction]

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""The column of the machine's call numbers, and its AUDIT_ARCH."""
_X32 = 0x40000000
"""A bit set in x32's call numbers, and in the -1 of a call that a debugger skipped."""

_LOAD, _AND, _EQUAL, _ABOVE, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16
"""Offsets in `struct seccomp_data`."""
_ALLOW, _KILL, _ERRNO, _TELL = 0x7FFF0000, 0x80000000, 0x00050000, 0x7FC00000
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_FILTER, _NEW_LISTENER = 1, 8

_NEW_NAMESPACE = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""
_NEW_TIME = 0x80
"""CLONE_NEWTIME; in `clone` this bit belongs to the child's exit signal."""
_HARMLESS_PERSONALITIES = (0, 0x8, 0x20000, 0x20008, 0x40000, 0xFFFFFFFF)
"""Linux, 32 bit, UNAME26, both, ADDR_NO_RANDOMIZE (for the thread sanitizer), and the query."""
_TERMINAL = (0x5412, 0x541C, 0x5423)
"""TIOCSTI types into a terminal, TIOCLINUX into a console, TIOCSETD loads line disciplines into the kernel."""
_PR_SET_MM, _PR_SET_PTRACER = 35, 0x59616D61
_MSG_FASTOPEN = 0x20000000
_SET_ID = 0o6000
"""
The set-uid and set-gid bits. A command's files belong to the user on disk, or to root when root runs the harness. With
such a bit they would lend those rights to any user of the host who can run them.
"""
_MAKES_A_FILE = 0o20000100
"""O_CREAT and O_TMPFILE: the arguments hold a mode only with these. `openat2` hides its mode from filters."""
_PRIO_PROCESS, _IOPRIO_WHO_PROCESS = 0, 1

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _DGRAM, _SEQPACKET = 1, 2, 5
_TYPE_MASK = 0xF
_TCP, _UDP, _NETLINK_ROUTE = 6, 17, 0


def program(*, network: "Literal['own', 'none']", unix: bool = True, machine: str | None = None) -> bytes:
    """
    Return the filter as an array of `struct sock_filter`, for bubblewrap's `--seccomp` and for `install`.

    `network` is "own" for a command with its own namespaces (network, IPC, processes). It is "none" for one without:
    then internet sockets, System V IPC, attributes of files, and changing limits, priorities and processors of other
    processes are refused too. Without `unix` only connected pairs of UNIX sockets are possible. `machine` is a name as
    in `uname -m`; None means this one.

    Raises:
        OSError: the machine is unknown.
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
    Apply the filter to the calling thread and all it starts, for good.

    Raises:
        OSError: the kernel accepts no filter; `no_new_privs` may be set all the same.
    """
    give_up_privileges()
    kept, pointed = _described(program)
    otherwise = "the kernel takes no filter of system calls"
    prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(pointed), otherwise=otherwise)
    del kept


def listen() -> int:
    """
    Have the calling thread, and all it starts, tell of each look-up; return the descriptor that hears them.

    Until it is read and answered, a call waits. A refusal by another filter comes first, and is not told.

    Raises:
        OSError: the kernel takes no such filter.
    """
    column, arch = _MACHINES[os.uname().machine]
    told = [(_LOAD, 0, 0, _ARCH_AT), *_unless(_EQUAL, arch, _answer(_ALLOW)), (_LOAD, 0, 0, _NUMBER_AT)]
    for numbers in LOOK_UPS.values():
        told += _on(numbers, column, _answer(_TELL))
    instructions = b"".join(struct.pack("<HBBI", *each) for each in told + _answer(_ALLOW))
    give_up_privileges()
    kept, pointed = _described(instructions)
    otherwise = "the kernel takes no filter that tells of system calls"
    address = ctypes.addressof(pointed)
    descriptor = call(_SECCOMP[os.uname().machine], _SET_FILTER, _NEW_LISTENER, address, otherwise=otherwise)
    del kept
    return descriptor


def _described(program: bytes) -> "tuple[ctypes.Array[ctypes.c_char], ctypes.Array[ctypes.c_char]]":
    """Return the program's bytes, to be kept alive, and the `struct sock_fprog` that points to them."""
    instructions = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("@HP", len(program) // 8, ctypes.addressof(instructions))
    return instructions, ctypes.create_string_buffer(described, len(described))


def _refusals(network: str) -> list[tuple[Numbers, int]]:
    tables = [(UNKNOWN, errno.ENOSYS), (REFUSED, errno.EPERM)]
    if network == "none":
        tables += [(SHARED, errno.EPERM), (ATTRIBUTES, errno.EOPNOTSUPP)]
    return [(numbers, answer) for table, answer in tables for numbers in table.values()]


def _foreign(arch: int) -> Block:
    """Kill for another architecture's call and refuse unknown ones. Afterwards the call number is loaded."""
    x32 = _when(_AT_LEAST, _X32, _unless(_EQUAL, 0xFFFFFFFF, _answer(_KILL)))
    return [
        (_LOAD, 0, 0, _ARCH_AT),
        *_unless(_EQUAL, arch, _answer(_KILL)),
        (_LOAD, 0, 0, _NUMBER_AT),
        *(x32 if arch == _MACHINES["x86_64"][1] else []),
        *_when(_ABOVE, HIGHEST, _refuse(errno.ENOSYS)),
    ]


def _told_apart(network: str, unix: bool) -> dict[str, Block]:
    """Return the blocks of calls that are refused for some arguments, the frequent ones first."""
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
    """
    Refuse to set another process' limits, which can end it, its priority and its processors.

    A process names itself by 0. Its own number could be any process' number to a filter, and is refused with the rest.
    """
    sets_nothing = [_argument(2), *_unless(_EQUAL, 0, _refuse(errno.EPERM))]
    sets_nothing += [_argument(2, upper=True), *_unless(_EQUAL, 0, _refuse(errno.EPERM)), *_answer(_ALLOW)]
    return {
        "prlimit64": [_argument(0), *_unless(_EQUAL, 0, sets_nothing), *_answer(_ALLOW)],
        "setpriority": _of_itself(_PRIO_PROCESS),
        "ioprio_set": _of_itself(_IOPRIO_WHO_PROCESS),
        **dict.fromkeys(
            ("sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler"),
            _allow_values(0, (0,), errno.EPERM),
        ),
    }


def _of_itself(process: int) -> Block:
    """Allow a call only of the kind `process`, not of a group or user, and only for the caller."""
    return [_argument(0), *_unless(_EQUAL, process, _refuse(errno.EPERM)), *_allow_values(1, (0,), errno.EPERM)]


def _sockets(network: str, unix: bool) -> Block:
    """Allow sockets by domain, type and protocol. MPTCP, SCTP, ICMP, raw sockets and AF_VSOCK stay refused."""
    body: Block = [_argument(0)]
    if unix:
        body += _when(_EQUAL, _UNIX, [*_only_types(_STREAM, _DGRAM, _SEQPACKET), *_answer(_ALLOW)])
    if network == "own":
        internet = [*_only_types(_STREAM, _DGRAM), *_allow_values(2, (0, _TCP, _UDP), errno.EPROTONOSUPPORT)]
        body += _when(_EQUAL, _INET, internet) + _when(_EQUAL, _INET6, internet)
        body += _when(_EQUAL, _NETLINK, _allow_values(2, (_NETLINK_ROUTE,), errno.EPROTONOSUPPORT))
    return body + _refuse(errno.EAFNOSUPPORT)


def _only_types(*types: int) -> Block:
    """Continue only when the second argument, without its flags, is one of these."""
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
    """Return a block for a call, or nothing on a machine without it. `then` ends in an answer."""
    number = numbers[column]
    return [] if number is None else _when(_EQUAL, number, then)


def _argument(index: int, *, upper: bool = False) -> Instruction:
    """
    Load half of an argument; both machines are little-endian.

    For an `int` the kernel itself reads only the lower half. Comparing more would let through what it then cuts off:
    TIOCSTI with a higher bit set is still TIOCSTI.
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
