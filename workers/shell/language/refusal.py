"""
Refusals of scripts, and the limits beyond which no script is read.

A `Refusal` is raised deep inside the reading, and `read_script` makes it an `Unparseable`.
"""

import re
from typing import NoReturn


class Refusal(Exception):
    """The meaning of a script cannot be known; `instead` says how to write it plainly."""

    def __init__(self, why: str, instead: str) -> None:
        super().__init__(why)
        self.why = why
        self.instead = instead


def refuse(why: str, instead: str) -> NoReturn:
    raise Refusal(why, instead)


LONGEST_BYTES = 32 * 1024
MOST_COMMANDS = 400
DEEPEST = 40
MOST_BYTES_IN_ALL = 4 * LONGEST_BYTES
"""The most bytes of a command, the texts it gives to shells and the scripts it runs, together."""

_ODD = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff\ud800-\udfff]"
)
"""Characters that shells and grammars read differently, or that do not show."""


def encode(text: str) -> bytes:
    """Encode a script as bash reads it, or refuse it for its length or its characters."""
    if len(text) > LONGEST_BYTES:
        _refuse_length()
    if (odd := _ODD.search(text)) is not None:
        refuse(
            f"it holds the character U+{ord(odd[0]):04X}, which shells do not agree upon",
            "use blanks, tabs and line feeds alone, and $'\\t' or printf for other control characters",
        )
    source = text.encode()
    if len(source) > LONGEST_BYTES:
        _refuse_length()
    return source


def check_depth(depth: int) -> None:
    if depth > DEEPEST:
        refuse(f"it is nested more than {DEEPEST} levels deep", "write the inner commands as commands of their own")


def check_number(commands: int) -> None:
    if commands > MOST_COMMANDS:
        refuse(f"it holds more than {MOST_COMMANDS} commands", "run fewer commands at once")


def _refuse_length() -> None:
    refuse(
        f"it is longer than {LONGEST_BYTES // 1024} KB",
        "write long texts into files with the file tools, and run shorter commands",
    )
