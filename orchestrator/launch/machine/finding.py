"""One line of the doctor's."""

from typing import Literal

from forgepool.workers.schema.orders import Message


class MachineFinding(Message):
    """`bad` stops runs; `note` is good to know."""

    what: str
    verdict: Literal["ok", "note", "bad"]
    found: str
    mend: str = ""
