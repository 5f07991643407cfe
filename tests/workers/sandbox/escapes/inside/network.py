"""Attempts to reach everything that listens outside, and to make sockets that no test suite needs."""

import ctypes
import os
import socket
import struct

from attempt import Stage, attempt
from calls import LIBC, call
from sight import heard, said_so

_CUT = ("network", "filter")
_ABSTRACT = ("network", "scope", "files", "filter")
_FASTOPEN, _FASTOPEN_CONNECT = 0x20000000, 30
_MPTCP, _SCTP = 262, 132
_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_LOOPBACK = "127.0.0.1"


def _tell(stage: Stage, family: int, kind: int, where: object, protocol: int = 0) -> None:
    with socket.socket(family, kind, protocol) as speaking:
        speaking.settimeout(1)
        speaking.connect(where)  # type: ignore[arg-type]  # as its family has it
        speaking.sendall(stage.name.encode())


@attempt(*_CUT, "files", seen=heard)
def connect_by_tcp(stage: Stage) -> None:
    _tell(stage, socket.AF_INET, socket.SOCK_STREAM, (_LOOPBACK, stage.ports["tcp"]))


@attempt(*_CUT, "files", seen=heard, may_be_idle="this host has no IPv6")
def connect_by_tcp_over_ipv6(stage: Stage) -> None:
    _tell(stage, socket.AF_INET6, socket.SOCK_STREAM, ("::1", stage.ports["tcp6"]))


@attempt(*_CUT, "files", seen=heard)
def connect_to_any_address(stage: Stage) -> None:
    """0.0.0.0 also means this host."""
    _tell(stage, socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", stage.ports["tcp"]))


@attempt(*_CUT, "files", seen=heard, may_be_idle="this host has no IPv6")
def connect_to_a_mapped_address(stage: Stage) -> None:
    _tell(stage, socket.AF_INET6, socket.SOCK_STREAM, (f"::ffff:{_LOOPBACK}", stage.ports["tcp"]))


@attempt(*_CUT, "seccomp", seen=heard, may_be_idle="the kernel knows no MPTCP")
def connect_by_multipath_tcp(stage: Stage) -> None:
    _tell(stage, socket.AF_INET, socket.SOCK_STREAM, (_LOOPBACK, stage.ports["tcp"]), _MPTCP)


@attempt(*_CUT, "seccomp", seen=heard, may_be_idle="the kernel opens no connection by the first packet")
def open_fast_by_sendto(stage: Stage) -> None:
    with socket.socket() as speaking:
        speaking.sendto(stage.name.encode(), _FASTOPEN, (_LOOPBACK, stage.ports["tcp"]))


@attempt(*_CUT, "seccomp", seen=heard, may_be_idle="the kernel opens no connection by the first packet")
def open_fast_by_sendmsg(stage: Stage) -> None:
    with socket.socket() as speaking:
        speaking.sendmsg([stage.name.encode()], [], _FASTOPEN, (_LOOPBACK, stage.ports["tcp"]))


@attempt(*_CUT, "files", seen=heard)
def open_fast_by_an_option(stage: Stage) -> None:
    with socket.socket() as speaking:
        speaking.settimeout(1)
        speaking.setsockopt(socket.IPPROTO_TCP, _FASTOPEN_CONNECT, 1)
        speaking.connect((_LOOPBACK, stage.ports["tcp"]))
        speaking.sendall(stage.name.encode())


@attempt(*_CUT, seen=heard)
def send_by_udp(stage: Stage) -> None:
    _tell(stage, socket.AF_INET, socket.SOCK_DGRAM, (_LOOPBACK, stage.ports["udp"]))


@attempt(*_CUT, seen=heard, may_be_idle="this host has no IPv6")
def send_by_udp_over_ipv6(stage: Stage) -> None:
    _tell(stage, socket.AF_INET6, socket.SOCK_DGRAM, ("::1", stage.ports["udp6"]))


@attempt(*_CUT, seen=heard)
def ask_for_a_name(stage: Stage) -> None:
    """The name itself carries the message, to any name server."""
    label = stage.name.encode()
    question = struct.pack("!6H", 1, 0x100, 1, 0, 0, 0) + bytes([len(label)]) + label + b"\0" + struct.pack("!HH", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as resolver:
        resolver.sendto(question, (_LOOPBACK, stage.ports["udp"]))


@attempt("root", "filter", "uid", perhaps=("files",), seen=heard)
def connect_by_path(stage: Stage) -> None:
    _tell(stage, socket.AF_UNIX, socket.SOCK_STREAM, stage.sockets["stream"])


@attempt("root", "filter", "uid", perhaps=("files",), seen=heard)
def send_by_path(stage: Stage) -> None:
    _tell(stage, socket.AF_UNIX, socket.SOCK_DGRAM, stage.sockets["datagram"])


@attempt("pids", "user", "scope", "files", "filter", "uid", seen=heard)
def connect_by_the_root_of_the_harness(stage: Stage) -> None:
    _tell(stage, socket.AF_UNIX, socket.SOCK_STREAM, f"/proc/{stage.harness}/root{stage.sockets['stream']}")


@attempt(*_ABSTRACT, seen=heard)
def connect_to_an_abstract_name(stage: Stage) -> None:
    _tell(stage, socket.AF_UNIX, socket.SOCK_STREAM, f"\0{stage.sockets['abstract']}")


@attempt(*_ABSTRACT, seen=heard)
def send_to_an_abstract_name(stage: Stage) -> None:
    _tell(stage, socket.AF_UNIX, socket.SOCK_DGRAM, f"\0{stage.sockets['abstract datagram']}")


@attempt(*_CUT, "files", seen=heard)
def answer_on_a_port_of_the_host(stage: Stage) -> None:
    """A client of that port takes it for another server."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((_LOOPBACK, stage.ports["free"]))
        listening.listen()
        listening.settimeout(0.5)
        connection, _ = listening.accept()
        connection.sendall(stage.name.encode())
        connection.recv(1)


@attempt(*_CUT, seen=lambda world, name, said: set(said or ()) > {"lo"}, may_be_idle="this host has its loopback alone")
def list_the_interfaces(stage: Stage) -> list[str]:
    """Netlink is allowed, but only for the command's own network."""
    return [name for _, name in socket.if_nameindex()]


@attempt("seccomp", "filter", "network", seen=lambda world, name, said: world.ports["tcp"] in (said or ()))
def list_the_sockets_of_the_host(stage: Stage) -> list[int]:
    request = struct.pack("=IHHII", 72, 20, 0x301, 1, 0)
    request += struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 1 << 10) + bytes(48)
    found: list[int] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as asking:
        asking.settimeout(1)
        asking.send(request)
        while True:
            answer = asking.recv(65536)
            while len(answer) >= 20:
                length, kind = struct.unpack_from("=IH", answer)
                if kind == 3:
                    return found
                if kind == 20:
                    found.append(struct.unpack_from("!H", answer, 20)[0])
                answer = answer[(length + 3) & ~3 :]


def _any(*kinds: tuple[int, int, int]) -> bool:
    """Return whether one of these sockets can be made."""
    refused = OSError(0, "none")
    for each in kinds:
        try:
            socket.socket(*each).close()
        except OSError as trouble:
            refused = trouble
        else:
            return True
    raise refused


@attempt("seccomp", "filter", seen=said_so, may_be_idle="the kernel has no sockets of virtual machines")
def make_a_socket_of_the_machine(stage: Stage) -> bool:
    """It reaches the host of this virtual machine, and no network namespace confines it."""
    return _any((socket.AF_VSOCK, socket.SOCK_STREAM, 0))


@attempt("seccomp", "filter", seen=said_so, may_be_idle="the kernel lends no ciphers")
def make_a_socket_of_ciphers(stage: Stage) -> bool:
    return _any((socket.AF_ALG, socket.SOCK_SEQPACKET, 0))


@attempt("seccomp", "filter", seen=said_so, may_be_idle="the kernel has no rare families of sockets")
def make_a_rare_socket(stage: Stage) -> bool:
    usual = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_VSOCK, socket.AF_ALG)
    kinds = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET)
    return _any(*((family, kind, 0) for family in range(1, 46) if family not in usual for kind in kinds))


@attempt("seccomp", "filter", seen=said_so)
def make_a_netlink_socket(stage: Stage) -> bool:
    """These are for packet filters, audit and device events, not for routes."""
    return _any(*((socket.AF_NETLINK, socket.SOCK_RAW, protocol) for protocol in (9, 12, 15)))


@attempt("seccomp", "filter", seen=said_so, may_be_idle="the kernel knows no SCTP, and no users may send pings")
def make_a_socket_of_a_rare_protocol(stage: Stage) -> bool:
    pings = (socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
    return _any(pings, (socket.AF_INET, socket.SOCK_STREAM, _SCTP), (socket.AF_INET, socket.SOCK_DGRAM, 136))


@attempt("seccomp", "filter", seen=said_so, may_be_idle="users may not make namespaces here")
def make_a_raw_socket_in_a_namespace(stage: Stage) -> bool:
    """The maker of a network namespace is root in it."""
    if LIBC.unshare(_NEW_USER | _NEW_NET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    return _any((socket.AF_PACKET, socket.SOCK_RAW, 0), (socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))


@attempt("user", "seccomp", "filter", "uid", seen=said_so, needs_root=True)
def make_a_raw_socket(stage: Stage) -> bool:
    return _any((socket.AF_PACKET, socket.SOCK_RAW, 0))


@attempt("seccomp", "filter", seen=said_so, may_be_idle="the kernel's rings are switched off")
def make_a_ring(stage: Stage) -> bool:
    """io_uring does things that no filter of system calls sees."""
    os.close(call(425, 8, ctypes.create_string_buffer(120)))
    return True


@attempt("user", "pids", "root", "seccomp", "scope", "files", "filter", "uid", seen=heard, needs_root=True)
def enter_the_network_of_the_harness(stage: Stage) -> None:
    network = os.open(f"/proc/{stage.harness}/ns/net", os.O_RDONLY)
    _setns(network, _NEW_NET)
    _tell(stage, socket.AF_INET, socket.SOCK_STREAM, (_LOOPBACK, stage.ports["tcp"]))


def _setns(namespace: int, kind: int) -> None:
    if LIBC.setns(namespace, kind) != 0:
        raise OSError(ctypes.get_errno(), "setns")
