"""
The hosts a command may reach: patterns, and the verdict on a host, port and address. Nothing is looked up here.

    packages.example.org         this host, ports 80 and 443, at a public address
    *.example.org                every host below it, not the host itself
    packages.example.org:8443    this port alone; a host and a port written in full may have a private address
    127.0.0.1:8123, [::1]:8123   this machine: a model server, a mirror

`permits` judges a name. `forbidden_address` judges each address of it, because the owner of a name can change its
addresses at any moment.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Literal

Address = IPv4Address | IPv6Address
Reach = Literal["public", "inner", "never"]
"""`inner` is this machine or its private network. `never` cannot be allowed by any list."""

_NEVER = (
    IPv4Network("0.0.0.0/8"),  # this machine, by another name
    IPv4Network("169.254.0.0/16"),  # link-local: 169.254.169.254 gives out a cloud machine's credentials
    IPv4Network("100.100.100.200/32"),  # the same at another vendor, among addresses of carriers
    IPv4Network("168.63.129.16/32"),  # the same at a third, among public addresses
    IPv4Network("192.0.0.192/32"),  # the same at a fourth
    IPv4Network("224.0.0.0/4"),
    IPv4Network("240.0.0.0/4"),
    IPv6Network("::/128"),
    IPv6Network("fe80::/10"),
    IPv6Network("fec0::/10"),
    IPv6Network("fd00:ec2::/32"),  # the cloud's credentials again
    IPv6Network("fd20:ce::254/128"),
    IPv6Network("ff00::/8"),
)
_INNER = tuple(
    ip_network(network)
    for network in (
        *("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24"),
        *("192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        *("2001::/23", "2001:db8::/32", "3fff::/20"),
    )
)
_PUBLIC_IPV6 = IPv6Network("2000::/3")
_TRANSLATED = (IPv6Network("64:ff9b::/96"), IPv6Network("::ffff:0:0:0/96"))


def reach(address: Address) -> Reach:
    """Classify an address. An IPv6 address that carries an IPv4 address is judged by that one."""
    plain = _carried(address)
    if any(plain in network for network in _NEVER):
        return "never"
    if any(plain in network for network in _INNER):
        return "inner"
    return "public" if isinstance(plain, IPv4Address) or plain in _PUBLIC_IPV6 else "inner"


def _carried(address: Address) -> Address:
    """Return the IPv4 address inside: mapped, 6to4, Teredo, NAT64 (RFC 6052), SIIT, and the old compatible form."""
    if isinstance(address, IPv4Address):
        return address
    if any(address in network for network in _TRANSLATED):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    if 1 < int(address) <= 0xFFFFFFFF:
        return IPv4Address(int(address))
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else address)


_USUAL_PORTS = (80, 443)
_NAME_CHARS = 253
_SHOWN_CHARS = 80
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
# Two standards write these differently in ASCII, so a name with them is two hosts.
_AMBIGUOUS = "\u00df\u03c2\u200c\u200d"
_ELSEWHERE = "no list can allow it; use another host"


class BadHost(ValueError):
    """The text names no host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRule:
    """One pattern of an allow-list."""

    host: str
    """Normalised by `host_name`."""
    below: bool = False
    """The rule covers the hosts below `host`, not the host itself."""
    port: int | None = None
    """None for ports 80 and 443."""

    @property
    def inner(self) -> bool:
        """May the host have a private address?"""
        return self.port is not None and not self.below

    def covers(self, host: str, port: int) -> bool:
        same_host = host.endswith(f".{self.host}") if self.below else host == self.host
        return same_host and (port in _USUAL_PORTS if self.port is None else port == self.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """A host and port that may be reached, at every address that `forbidden_address` accepts."""

    host: str
    port: int
    inner: bool
    """True if a private address is allowed."""


@dataclass(frozen=True, slots=True)
class Denied:
    """A refusal in one sentence that says what would be right; safe to send and log."""

    why: str


def read_rules(patterns: Iterable[str]) -> tuple[HostRule, ...]:
    """
    Parse an allow-list. An empty one allows nothing.

    Raises:
        BadHost: a pattern is malformed, or names an address that no command may reach.
    """
    return tuple(read_rule(pattern) for pattern in patterns)


def read_rule(pattern: str) -> HostRule:
    """
    Parse one pattern.

    Raises:
        BadHost: the pattern is malformed, or names an address that no command may reach.
    """
    host, port = split_port(pattern)
    if host.startswith("*."):
        return _read_wildcard(pattern, host[2:], port)
    rule = HostRule(host=host_name(host), port=port)
    address = literal(rule.host)
    if address is not None and reach(address) == "never":
        raise BadHost(
            f"host {_shown(pattern)}: no command may reach this address; name a host, or 127.0.0.1 with a port"
        )
    if address is not None and reach(address) == "inner" and port is None:
        raise BadHost(f"host {_shown(pattern)}: a private address without a port; write {_shown(f'{pattern}:PORT')}")
    return rule


def _read_wildcard(pattern: str, host: str, port: int | None) -> HostRule:
    above = host_name(host)
    if literal(above) is not None or "." not in above:
        raise BadHost(f"host {_shown(pattern)}: far too many hosts; write *.example.org with a domain of yours")
    return HostRule(host=above, below=True, port=port)


def permits(rules: Sequence[HostRule], host: str, port: int) -> Permit | Denied:
    """Judge a host and port by the allow-list, however the host is written."""
    try:
        name = host_name(host)
    except BadHost as bad:
        return Denied(str(bad))
    covering = [rule for rule in rules if rule.covers(name, port)]
    if not covering:
        return Denied(
            f"{write_in_full(name, port)} is not among the hosts this command may reach; {_way_in(name, port)}"
        )
    return Permit(host=name, port=port, inner=any(rule.inner for rule in covering))


def forbidden_address(permit: Permit, address: Address) -> Denied | None:
    """Return why this address of a permitted host may not be reached; None if it may."""
    distance = reach(address)
    if distance == "public" or (distance == "inner" and permit.inner):
        return None
    found = f"{permit.host} is at {address}"
    if distance == "never":
        return Denied(f"{found}, which no command may reach; {_ELSEWHERE}")
    return Denied(f"{found}, a private address; {_lets_in(write_in_full(permit.host, permit.port))}")


def _way_in(name: str, port: int) -> str:
    address = literal(name)
    distance = "public" if address is None else reach(address)
    if distance == "never":
        return _ELSEWHERE
    usual = distance == "public" and port in _USUAL_PORTS
    return _lets_in(write_in_full(name, None if usual else port))


def _lets_in(written: str) -> str:
    where = "the plan's task or the check of forgepool.yaml that runs this command"
    return f"to allow it, put `network: [{_quoted(written)}]` into {where}"


def _quoted(written: str) -> str:
    """Quote a pattern as needed inside a YAML list."""
    return f'"{written}"' if ":" in written else written


def host_name(host: str) -> str:
    """
    Normalise a host: lower case, ASCII, no final dot; an address in its usual form, IPv6 without brackets.

    Raises:
        BadHost: not a name, or an address in another notation (octal, short, a single number), which resolvers read
            differently.
    """
    if host.startswith("[") and host.endswith("]"):
        return str(_ipv6(host[1:-1]))
    name = _ascii(host).lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > _NAME_CHARS or not all(_LABEL.fullmatch(label) for label in labels):
        raise BadHost(f"host {_shown(host)}: not a name; write one like packages.example.org")
    return str(_ipv4(name)) if _NUMBER.fullmatch(labels[-1]) else name


def literal(name: str) -> Address | None:
    """Return the address if the normalised host is one."""
    if ":" in name:
        return IPv6Address(name)
    return IPv4Address(name) if _NUMBER.fullmatch(name.rpartition(".")[2]) else None


def split_port(text: str) -> tuple[str, int | None]:
    """
    Split `host:port`, or a host alone. IPv6 addresses are written in brackets.

    Raises:
        BadHost: the port is no number from 1 to 65535, or there are too many colons.
    """
    bracketed = text.startswith("[") and "]" in text
    host, port = text, ""
    if bracketed:
        end = text.index("]") + 1
        host, colon, port = text[:end], text[end : end + 1], text[end + 1 :]
    else:
        host, colon, port = text.partition(":")
    if not colon:
        return host, None
    if colon != ":" or not _PORT.fullmatch(port) or int(port) > 0xFFFF:
        raise BadHost(f"host {_shown(text)}: no port after it; write host:8443, and an IPv6 address as [::1]:8443")
    return host, int(port)


def write_in_full(name: str, port: int | None) -> str:
    """Write a normalised host as a pattern."""
    host = f"[{name}]" if ":" in name else name
    return host if port is None else f"{host}:{port}"


def _ascii(host: str) -> str:
    if host.isascii():
        return host
    if any(char in host for char in _AMBIGUOUS):
        raise BadHost(f"host {_shown(host)}: two hosts are spelled so; write it in its ASCII form, xn--...")
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        raise BadHost(f"host {_shown(host)}: not a name; write it in its ASCII form, xn--...") from None


def _ipv4(name: str) -> IPv4Address:
    try:
        return IPv4Address(name)
    except AddressValueError:
        raise BadHost(f"host {_shown(name)}: an odd spelling of an address; write four numbers, 192.0.2.1") from None


def _ipv6(text: str) -> IPv6Address:
    try:
        address = IPv6Address(text)
    except AddressValueError:
        raise BadHost(f"host {_shown(text)}: not an IPv6 address; write one like [2001:db8::1]") from None
    if address.scope_id is not None:
        raise BadHost(f"host {_shown(text)}: an address of one interface only; write one without %")
    return address


def _shown(text: str) -> str:
    """Make any text printable: ASCII, one line, cut."""
    return ascii(text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "...")
