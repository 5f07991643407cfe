"""
Which network addresses are anybody's, which are this machine's surroundings, and which are never to be reached.

The tables are our own, from the IANA registries of special-purpose addresses: the standard library's `is_global` says
different things in different releases of Python, and does not look into addresses that carry another inside.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Literal

Address = IPv4Address | IPv6Address
Reach = Literal["public", "inner", "never"]
"""`inner`: this machine itself, its private network. `never`: whatever anybody writes into a list."""

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
_INNER = (
    IPv4Network("10.0.0.0/8"),
    IPv4Network("100.64.0.0/10"),
    IPv4Network("127.0.0.0/8"),
    IPv4Network("172.16.0.0/12"),
    IPv4Network("192.0.0.0/24"),
    IPv4Network("192.0.2.0/24"),
    IPv4Network("192.88.99.0/24"),
    IPv4Network("192.168.0.0/16"),
    IPv4Network("198.18.0.0/15"),
    IPv4Network("198.51.100.0/24"),
    IPv4Network("203.0.113.0/24"),
    IPv6Network("2001::/23"),
    IPv6Network("2001:db8::/32"),
    IPv6Network("3fff::/20"),
)
_PUBLIC_IPV6 = IPv6Network("2000::/3")
_TRANSLATED = (IPv6Network("64:ff9b::/96"), IPv6Network("::ffff:0:0:0/96"))


def reach(address: Address) -> Reach:
    """How far away it is. An IPv6 address that carries an IPv4 address is judged by that one."""
    plain = _carried(address)
    if any(plain in network for network in _NEVER):
        return "never"
    if any(plain in network for network in _INNER):
        return "inner"
    return "public" if isinstance(plain, IPv4Address) or plain in _PUBLIC_IPV6 else "inner"


def _carried(address: Address) -> Address:
    """The IPv4 address inside: mapped, 6to4, Teredo, NAT64 (RFC 6052), SIIT, and the old compatible form."""
    if isinstance(address, IPv4Address):
        return address
    if any(address in network for network in _TRANSLATED):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    if 1 < int(address) <= 0xFFFFFFFF:
        return IPv4Address(int(address))
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else address)
