"""
The way out of one order's or one check's sandboxes: a proxy behind a list of hosts, on a port of each command's own
loopback. What it lets through, and what not, is logged.
"""

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import structlog

from forgepool.workers.sandbox.network.hosts import HostRule, literal, read_rules
from forgepool.workers.sandbox.network.proxy.exchange import ProxyRecord
from forgepool.workers.sandbox.network.proxy.proxy import Proxy, proxy_variables
from forgepool.workers.sandbox.network.proxy.stand_in import Access, StandIn, standing_in

_PORT = 3128
_TRUST = (
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "NODE_EXTRA_CA_CERTS", "NPM_CONFIG_CAFILE"),
    *("CARGO_HTTP_CAINFO", "GIT_SSL_CAINFO"),
)
log = structlog.get_logger()


class ProxyOutlet:
    """
    Serves the proxy's port, and each port for which a host of this machine's own loopback is on the list: of such a
    server (a model's, say) many programs take no proxy's word.
    """

    def __init__(self, proxy: Proxy, rules: Sequence[HostRule]) -> None:
        self._proxy = proxy
        inner = {rule.port: rule.host for rule in rules if rule.port is not None and _is_loopback(rule)}
        self._forwards = tuple((host, port) for port, host in inner.items() if port != _PORT)

    @property
    def ports(self) -> tuple[int, ...]:
        return (_PORT, *(port for _, port in self._forwards))

    def serve(self, listeners: Sequence[socket.socket]) -> None:
        first, *others = listeners
        self._proxy.serve(first)
        for listener, (host, port) in zip(others, self._forwards, strict=True):
            self._proxy.forward(listener, host, port)

    def release(self, listeners: Sequence[socket.socket]) -> None:
        for listener in listeners:
            self._proxy.release(listener)


@contextmanager
def way_out(
    hosts: Sequence[str], access: Access | None = None, tmp: Path | None = None
) -> Iterator[tuple[ProxyOutlet | None, dict[str, str]]]:
    """
    The outlet, and the variables by which programs find it; without hosts there is none.

    With an `access` it is found as this host finds it, and certificates are put into `tmp` for the commands.

    Raises:
        BadHost: one of them is no host.
    """
    rules = read_rules(hosts)
    if not rules:
        yield None, {}
        return
    if access is None:
        with Proxy(rules, told=_tell) as proxy:
            yield ProxyOutlet(proxy, rules), proxy_variables(_PORT)
        return
    with standing_in(access) as stand_in, Proxy(rules, told=_tell, access=access, stand_in=stand_in) as proxy:
        yield ProxyOutlet(proxy, rules), proxy_variables(_PORT) | _trust(access, stand_in, tmp)


def _trust(access: Access, stand_in: StandIn | None, tmp: Path | None) -> dict[str, str]:
    """Whom commands trust, by the variables of the programs that ask."""
    roots = access.roots + (stand_in.authority if stand_in is not None else "")
    if tmp is None or not roots:
        return {}
    bundle = tmp / "authorities.pem"
    bundle.write_text(roots)
    return dict.fromkeys(_TRUST, str(bundle))


def _is_loopback(rule: HostRule) -> bool:
    if rule.host == "localhost":
        return True
    with suppress(ValueError):
        found = literal(rule.host)
        return found is not None and found.is_loopback
    return False


def _tell(told: ProxyRecord) -> None:
    said = {"host": told.host, "port": told.port, "why": told.why}
    if told.allowed:
        log.info("network.reached", **said, sent_bytes=told.sent_bytes, received_bytes=told.received_bytes)
    else:
        log.warning("network.refused", **said)
