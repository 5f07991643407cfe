"""
Hosts on the network as rules name them: one by its name, or all below a name.

Which addresses a name may lead to is the proxy's affair.
"""

from dataclasses import dataclass
from typing import Self

from forgepool.workers.sandbox.network.hosts import BadHost, host_name, split_port


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPattern:
    """`packages.example.org`, `*.example.org` (hosts below it, not itself), `*`; a port where one is written."""

    text: str
    name: str
    """Without `*.`, as it is normalised for the network; empty for every host."""
    below: bool
    port: int | None

    @classmethod
    def of(cls, text: str) -> Self:
        """
        Raises:
            ValueError: it is no host; with the rest of a sentence.
        """
        if text == "*":
            return cls(text=text, name="", below=True, port=None)
        try:
            host, port = split_port(text)
            below = host.startswith("*.")
            return cls(text=text, name=host_name(host[2:] if below else host), below=below, port=port)
        except BadHost as bad:
            raise ValueError(f"must be a host such as packages.example.org or *.example.org: {bad}") from bad

    @property
    def rank(self) -> tuple[int, int, int]:
        """Exact before glob, longer before shorter, with a port before without."""
        return (0 if self.below else 1, len(self.name), 0 if self.port is None else 1)

    def covers(self, other: "HostPattern") -> bool:
        """Every host the other means is meant by this one."""
        return self._covers_name(other) and self.port in (None, other.port)

    def meets(self, other: "HostPattern") -> bool:
        """Some host is meant by both."""
        ports = self.port is None or other.port is None or self.port == other.port
        return ports and (self._covers_name(other) or other._covers_name(self))

    def _covers_name(self, other: "HostPattern") -> bool:
        if not self.below:
            return not other.below and self.name == other.name
        if not self.name:
            return True
        return other.name.endswith(f".{self.name}") or (other.below and other.name == self.name)
