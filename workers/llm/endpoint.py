"""One model behind one door, as plain values: what an adapter needs to be told. Nothing here is read from anywhere."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit, urlunsplit

_VERSION = re.compile(r"/v\d+\w*(/|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    model: str
    """As the vendor calls it."""
    api_key: str = field(default="", repr=False)
    """Empty for a server that wants none."""
    base_url: str | None = None
    """With or without `/v1`; None is the vendor's own."""
    headers: Mapping[str, str] = field(default_factory=dict)
    max_output_tokens: int | None = None
    """The most for one answer where a request does not say; None is the vendor's choice."""
    silence_s: float = 120.0
    """Seconds without a byte after which there will be no answer."""
    quiet_s: float = 600.0
    """Seconds in which nothing of the answer came, only signs of life, after which there will be none."""
    longest_s: float = 1200.0
    """Seconds that one try may take in all."""
    effort: str | None = None
    """How hard the model should think, in the vendors' words (`none`, `minimal`, `low` ... `max`); None leaves it."""
    name: str = ""
    """What it is called in sentences; empty is the model's name."""
    account: str = ""
    """Our name for whose door it is; what is sealed for one account no other can open."""

    def most_tokens(self, asked: int | None) -> int | None:
        """For one answer: what is asked for, as far as the model gives as much."""
        return min((most for most in (asked, self.max_output_tokens) if most is not None), default=None)

    @property
    def called(self) -> str:
        return self.name or self.model


def add_version(base_url: str) -> str:
    """The address with the version the wire has in it, `/v1` where it names none; without its query."""
    bare = _bare(base_url)
    return bare if _VERSION.search(urlsplit(bare).path) else f"{bare}/v1"


def strip_version(base_url: str) -> str:
    """The address without the wire's version and without its query."""
    return _bare(base_url).removesuffix("/v1")


def query(base_url: str) -> dict[str, str]:
    """What an address wants sent along with every request (`?api-version=...`)."""
    return dict(parse_qsl(urlsplit(base_url).query, keep_blank_values=True))


def _bare(base_url: str) -> str:
    return urlunsplit(urlsplit(base_url)._replace(query="", fragment="")).rstrip("/")
