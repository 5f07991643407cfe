"""
How an answer ended, in vendors' words: the few that are good are listed by each wire, and everything else is not.

A word nobody has heard of may mean that the server gave up in the middle of a call, so no tool is run after it.
"""

import re
from collections.abc import Mapping

from forgepool.workers.llm.messages import StopReason

_REFUSED = re.compile(
    r"content_?filter|filter|safety|refus|blocked|blocklist|prohibited|guardrail|moderation|recitation"
)
_TOO_LONG = re.compile(r"length|max_\w*tokens|max_?tokens|token_?limit")


def find_stop_reason(word: object, good: Mapping[str, StopReason]) -> StopReason | None:
    """`end` stands for either good end; None where the answer has not come to one."""
    text = str(word or "")[:100]
    if text in good:
        return good[text]
    low = text.lower()
    if _REFUSED.search(low):
        return "refusal"
    return "max_tokens" if _TOO_LONG.search(low) else None
