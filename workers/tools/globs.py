"""
Globs over whole paths, as a shell has them.
"""

import re
from functools import cache

from workers.tools.refusal import Refused


def matcher(glob: str) -> re.Pattern[str]:
    """
    The pattern that a model's glob means.

    Raises:
        Refused: it means nothing.
    """
    try:
        return glob_pattern(glob)
    except re.error as wrong:
        raise Refused(f"{glob}: {wrong}; give a glob such as **/*.py") from wrong


@cache
def glob_pattern(glob: str) -> re.Pattern[str]:
    """
    A glob as a regular expression over whole paths: `**` spans folders, `*` and `?` do not, `{a,b}` is
    either.
    """
    glob = re.sub(r"(\*\*/)+", "**/", glob)  # the same, and linear to match
    tokens = re.findall(r"\*\*/|\*\*|\[!?\]?[^\]]*\]|.", glob, re.DOTALL)
    depth = 0
    out = ""
    for token in tokens:
        if token == "{":
            depth += 1
        elif token == "}" and depth:
            depth -= 1
        out += _translated(token, depth)
    return re.compile(out if depth == 0 else re.escape(glob), re.DOTALL)


def _translated(token: str, depth: int) -> str:
    plain = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]", "{": "(?:"}
    if token in plain:
        return plain[token]
    if token == "}":
        return ")"
    if token == "," and depth:
        return "|"
    if len(token) > 2 and token[0] == "[":
        inner = token[1:-1].replace("\\", r"\\").replace("[", r"\[")
        return f"[^/{inner[1:]}]" if inner[0] == "!" else f"[{inner}]"
    return re.escape(token)
