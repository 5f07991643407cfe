"""The escapes of `$'...'`."""

import re

from forgepool.workers.shell.scan.refusal import refuse

_ESCAPE = re.compile(
    r"\\(?:(?P<letter>[abeEfnrtv\\'\"?])|x(?P<hex>[0-9A-Fa-f]{1,2})|u(?P<short>[0-9A-Fa-f]{1,4})"
    r"|U(?P<long>[0-9A-Fa-f]{1,8})|(?P<octal>[0-7]{1,3})|(?P<other>[\x00-\U0010ffff]))"
)
_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def decode_ansi(text: str) -> str:
    """What bash makes of the inside of `$'...'`."""
    return _ESCAPE.sub(_decode, text)


def _decode(escape: re.Match[str]) -> str:
    if (letter := escape["letter"]) is not None:
        return _LETTERS.get(letter, letter)
    if (short := escape["short"] or escape["long"]) is not None:
        return _character(int(short, 16), highest=0x10FFFF)
    if escape["hex"] is not None:
        return _character(int(escape["hex"], 16), highest=0x7F)
    if escape["octal"] is not None:
        return _character(int(escape["octal"], 8), highest=0x7F)
    return refuse(f"$'...' holds the escape {escape[0]!r}", "use \\n, \\t, \\\\, \\' or plain characters in $'...'")


def _character(code: int, *, highest: int) -> str:
    if not 0 < code <= highest or 0xD800 <= code < 0xE000:
        refuse("$'...' holds a byte that ends or spoils the word", "use plain characters in $'...'")
    return chr(code)
