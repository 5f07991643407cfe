"""
The words of documents that are more than text: durations, short names, paths within the repository.

As types for the fields of pydantic models; a wrong one raises the rest of a sentence that begins with its place.
"""

import math
import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from forgepool.workers.schema.yaml.mistakes import show_value

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([smhd]?)")
_UNIT_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_SLUG_RULE = "letters, digits, '_', '-' or single '.' within, at most 100, and not end in '.lock'"
_SLUG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


def _duration(value: object) -> object:
    """Seconds from `90`, `"90s"`, `"15m"`, `"1h"`, `"1d"`."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        seconds = float(match[1]) * _UNIT_S[match[2]]
    else:
        raise ValueError(f"must be a duration such as 90, 90s, 15m or 1h, is {show_value(value)}")
    if not 0 < seconds < math.inf:
        raise ValueError(f"must be more than 0 seconds, is {show_value(value)}")
    return seconds


def slug(text: str) -> str:
    """
    The text, if it can be part of a git ref and of a file's name.

    Raises:
        ValueError: with the rest of a sentence whose beginning names the text's place.
    """
    if not _SLUG.fullmatch(text) or ".." in text or text.endswith((".", ".lock")):
        raise ValueError(f"must be {_SLUG_RULE}, is {show_value(text)}")
    return text


def _relative(text: str) -> str:
    if not text or text.startswith("/") or ".." in text.split("/") or "\\" in text:
        raise ValueError(f"must be a path inside the repository such as src/app, is {show_value(text)}")
    return text


Duration = Annotated[float, BeforeValidator(_duration)]
"""Seconds; written as a number or with a unit: `90`, `"90s"`, `"15m"`, `"1h"`, `"1d"`."""
Slug = Annotated[str, AfterValidator(slug)]
"""A short name that can be part of a git ref, of a path and of a message's id."""
RelativePath = Annotated[str, AfterValidator(_relative)]
"""A path inside the repository, with `/` between its parts."""
