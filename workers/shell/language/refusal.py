"""Why a script cannot be known, on its way out of the reading: raised deep inside, an `Unparseable` at the door."""

import re
from typing import NoReturn


class Refusal(Exception):
    """What the text would run is not known; `instead` says how to write it so that it is."""

    def __init__(self, why: str, instead: str) -> None:
        super().__init__(why)
        self.why = why
        self.instead = instead


def refuse(why: str, instead: str) -> NoReturn:
    raise Refusal(why, instead)


def refuse_continuation() -> NoReturn:
    refuse(
        "a line is continued where that may join two characters to one",
        "put a blank before the backslash that ends a line",
    )


def refuse_backticks() -> NoReturn:
    refuse("backticks nest in ways that shells and grammars read differently", "write $(...) for `...`")


def refuse_open_quote() -> NoReturn:
    refuse("a quote is never closed", "close every quote")


def refuse_indirection() -> NoReturn:
    refuse("`${!name}` takes the variable's value for another name", "name the variable itself")


LONGEST_BYTES = 32 * 1024
MOST_COMMANDS = 400
DEEPEST = 40
MOST_BYTES_IN_ALL = 4 * LONGEST_BYTES
"""Of a command, the texts given to shells in it, and the scripts it runs, together."""

_ODD = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff\ud800-\udfff]"
)
"""What shells and grammars take for a blank or not as they like, and what does not show."""


def encode(text: str) -> bytes:
    """The text as bash is given it."""
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
