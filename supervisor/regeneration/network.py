"""Words by which commands say that it was the network, and nothing of what they were given."""

import re

_WORDS = re.compile(
    r"\b(ENOTFOUND|ETIMEDOUT|ECONNRESET|ECONNREFUSED|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|"
    r"could not resolve host|temporary failure in name resolution|name or service not known|network is unreachable|"
    r"no route to host|connection (?:refused|reset|timed out)|operation timed out|tls handshake timeout|"
    r"(?:502 bad gateway|503 service (?:temporarily )?unavailable|504 gateway time-?out|429 too many requests))\b",
    re.IGNORECASE,
)
_SHOWN = 300


def network_trouble(tail: str) -> str | None:
    """The last line of an output that speaks of it; None where none does."""
    lines = [line.strip() for line in tail.splitlines() if _WORDS.search(line)]
    return lines[-1][:_SHOWN] if lines else None
