"""
The way out of a command that another process of ours runs: that one opens the sockets, the harness serves them.

Standard library only: the guard imports this without site-packages.
"""

import socket
import threading
from collections.abc import Sequence

from forgepool.workers.schema.confinement import Outlet

_SERVED = b"served"


class LinkedOutlet:
    """The far end: an outlet whose sockets go to the harness, and are released when this end is closed."""

    def __init__(self, link: socket.socket, ports: Sequence[int]) -> None:
        self._link = link
        self.ports = tuple(ports)

    def serve(self, listeners: Sequence[socket.socket]) -> None:
        socket.send_fds(self._link, [b"serve"], [each.fileno() for each in listeners])
        if self._link.recv(len(_SERVED)) != _SERVED:
            raise OSError(0, "the harness no longer serves the network it granted")
        for each in listeners:
            each.close()

    def release(self, listeners: Sequence[socket.socket]) -> None:
        self._link.close()


def link_outlet(outlet: Outlet) -> socket.socket:
    """What the other process is given; the outlet serves it until it is closed there."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    threading.Thread(target=_serve, args=(ours, outlet), name="linked-outlet", daemon=True).start()
    return theirs


def _serve(link: socket.socket, outlet: Outlet) -> None:
    with link:
        said, descriptors, _, _ = socket.recv_fds(link, 16, len(outlet.ports))
        listeners = tuple(socket.socket(fileno=each) for each in descriptors)
        for each in listeners:
            each.set_inheritable(False)
        if said and len(listeners) == len(outlet.ports):
            outlet.serve(listeners)
            link.sendall(_SERVED)
            link.recv(1)
        outlet.release(listeners)
