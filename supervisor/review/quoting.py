"""Foreign texts, set apart from the harness's words by a mark that only this review knows."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field

_BYTES = 12
_INVISIBLE = {ord(letter): f"<U+{ord(letter):04X}>" for letter in "\u061c\u200b\u200e\u200f\u2028\u2029\u2060\ufeff"}
_INVISIBLE |= {code: f"<U+{code:04X}>" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
_INVISIBLE |= {code: f"<U+{code:04X}>" for code in range(0xE0000, 0xE0080)}
_INVISIBLE |= {code: f"<{code:02X}>" for code in (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0))}
"""Characters that hide text or turn it round, and those that steer terminals: told by number, since a reviewer is to
judge what is there."""


@dataclass(frozen=True, slots=True)
class Quotation:
    """One review's mark."""

    mark: str = field(default_factory=lambda: secrets.token_hex(_BYTES))

    def quote(self, label: str, text: str) -> str:
        """`label` is the harness' own word for what it is."""
        return f"[quoted {self.mark}: {label}]\n{plain(text).rstrip()}\n[end {self.mark}]"

    def quote_list(self, label: str, items: Iterable[str]) -> str:
        return self.quote(label, "\n".join(f"- {one_line(item)}" for item in items))


def plain(text: str) -> str:
    """Every character can be sent, and is seen."""
    sendable = text.replace("\r\n", "\n").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return sendable.translate(_INVISIBLE)


def one_line(text: str) -> str:
    """A name or a sentence of others, on a line of its own."""
    return " ".join(plain(text).split())


def clip_text(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}\n[{len(text) - most:,} more characters are left out]"
