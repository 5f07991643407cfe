"""
Secrets taken out of a text, before it is written down, sent on or shown.

They are known by what they are, not by what they look like: the values of the keys this process holds. That does not
keep a command from reading them, nor from sending them elsewhere; it keeps them out of prompts, transcripts and logs.
"""

import re
from collections.abc import Callable, Iterable

_SHORTEST = 6
"""Characters: a shorter value would be found in many an innocent word."""


def hider(secrets: Iterable[str]) -> Callable[[str], str]:
    """Puts `[key hidden]` in the place of each of the secrets, wherever it stands in a text."""
    known = sorted({one for one in secrets if len(one) >= _SHORTEST}, key=len, reverse=True)
    if not known:
        return str
    pattern = re.compile("|".join(map(re.escape, known)))
    return lambda text: pattern.sub("[key hidden]", text)
