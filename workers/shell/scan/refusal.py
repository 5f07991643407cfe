"""Why a script cannot be known, on its way out of the reading: raised deep inside, an `Unparseable` at the door."""

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
