"""
The prices a replay is reckoned at: one of two lists by name, or a file of one's own.
"""

from pathlib import Path

from pydantic import Field

from forgepool.workers.context.replay.cost import ANTHROPIC, OPENAI, Prices
from forgepool.workers.schema.orders import Message
from forgepool.workers.schema.yaml.documents import load, read_text

_MOST = 1_000_000
LISTS = {each.name: each for each in (ANTHROPIC, OPENAI)}


class _File(Message):
    """USD per million tokens."""

    fresh: float = Field(gt=0, le=_MOST)
    written: float = Field(gt=0, le=_MOST)
    cached: float = Field(ge=0, le=_MOST)
    output: float = Field(gt=0, le=_MOST)
    automatic: bool = False


def prices(name: str) -> Prices:
    """
    The list of that name, else that of the file of that name: YAML with `fresh`, `written`, `cached` and `output`.

    Raises:
        DocumentWrong: there is no such file, or it is no list of prices.
    """
    if name in LISTS:
        return LISTS[name]
    found = load(read_text(Path(name), name), name, _File)
    return Prices(
        name=name,
        fresh=found.fresh,
        written=found.written,
        cached=found.cached,
        output=found.output,
        automatic=found.automatic,
    )
