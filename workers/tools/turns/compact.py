"""
`compact`: the agent asks that its history be cleared of noise. The harness sees the call, and does so before the next
turn.
"""

from pydantic import Field

from forgepool.workers.tools.tool import Arguments, ToolAnswer, make_typed_tool
from forgepool.workers.tools.workplace import Workplace

COMPACT = "compact"


class CompactArguments(Arguments):
    reason: str = Field(min_length=1, description="why now, and what of the history is still needed")


def _compact(arguments: CompactArguments, workplace: Workplace) -> ToolAnswer:
    return ToolAnswer(text="OK: before your next turn the history is cleared of noise, if there is enough of it")


COMPACT_TOOL = make_typed_tool(
    COMPACT,
    "Clears your history of noise: confirmations, listings and results that later ones replace. Data in use stays. "
    "Call it before work that needs the whole picture, or when told how full the context is; never in the middle of "
    "an analysis, nor as a precaution.",
    CompactArguments,
    _compact,
    kind="read",
)
