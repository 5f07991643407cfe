"""
Where a request is marked for Anthropic's prompt cache: up to four places, each caching all that comes before it.

What all tasks share (tools and the first block of the system prompt); the end of what lasts of the user's first say,
which is the task card and, after a rebuild, the ledger; the tail, so that the next request finds it; and the tail as it
was one request ago, since a mark is looked for at most twenty blocks back and a turn may hold more. OpenAI's caches
need no marks.
"""

from typing import Any

Block = dict[str, Any]

_LASTING: Block = {"type": "ephemeral", "ttl": "1h"}
_SHORT: Block = {"type": "ephemeral"}


def mark(
    tools: list[Block], system: list[Block], messages: list[Block], *, lasting: bool, first_parts: int | None = None
) -> None:
    """
    Puts the marks on. `messages` alternate and begin and end with the user's. `first_parts`: how many parts of the
    first are the same for longer than the others; None is all.

    The vendor wants marks of an hour before those of five minutes, which the order of the places sees to.
    """
    first = _LASTING if lasting else _SHORT
    invariant = system[:1] or tools[-1:]
    content = messages[0]["content"]
    for block in (*invariant, content[min(first_parts or len(content), len(content)) - 1]):
        block["cache_control"] = first
    for message in messages[2::2][-2:]:
        message["content"][-1]["cache_control"] = _SHORT
