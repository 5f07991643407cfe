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
