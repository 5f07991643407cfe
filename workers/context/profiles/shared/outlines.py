"""
Texts made short: an outline of what was read, both ends of what was printed, the lines that say what went wrong.
"""

import re

SYMBOLS = 8
OUTLINED_CHARACTERS = 100_000
ERROR_CHARACTERS = 300
_NUMBERED = re.compile(r"^ *\d+\t", re.MULTILINE)
_SYMBOL = re.compile(
    r"^(?:(?:async )?def|class)[ \t]+(\w+)"
    r"|^(?:export[ \t]+)(?:default[ \t]+)?(?:async[ \t]+)?(?:abstract[ \t]+)?"
    r"(?:function\*?|class|const|let|var|interface|type|enum)[ \t]+(\w+)"
    r"|^(?:async[ \t]+)?function\*?[ \t]+(\w+)",
    re.MULTILINE,
)
_WRONG = re.compile(r"error|fail|exception|not found|enoent|eacces|panic|denied|no such", re.IGNORECASE)
_NAMED = re.compile(
    r"^[ \t]*(?:FAILED[ \t]+[^\s(]|ERROR[ \t]+\S+(?:::|\.py\b)|(?:ERROR|FAIL): test|FAIL[ \t]+\S+\.|--- FAIL: "
    r"|not ok \d|[✗✕×●][ \t]+\S).*",
    re.MULTILINE,
)
"""Lines in which runners of tests name what failed."""


def outline(text: str) -> str:
    """How many lines, and what is defined in them at the outermost level."""
    lines = text.count("\n") + (not text.endswith("\n"))
    plain = _NUMBERED.sub("", text[:OUTLINED_CHARACTERS])
    names = list(dict.fromkeys(next(filter(None, found)) for found in _SYMBOL.findall(plain)))
    if not names:
        return f"{lines} lines"
    more = f"… +{len(names) - SYMBOLS} more" if len(names) > SYMBOLS else ""
    return f"{lines} lines — exports: {', '.join(names[:SYMBOLS])}{more}"


def error_lines(text: str) -> str:
    """
    Of the output of what is known to have failed: the tests it names, else the first line that speaks of an error, else
    its last line.
    """
    named = [match.group().strip() for match in _NAMED.finditer(text)]
    if named:
        return beginning(" | ".join(dict.fromkeys(named)), ERROR_CHARACTERS)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = next((line for line in lines if _WRONG.search(line)), lines[-1] if lines else "no output")
    return beginning(first, ERROR_CHARACTERS)


def beginning(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def ends(text: str, most: int) -> str:
    """A third from its beginning, the rest from its end, which is where programs say what failed."""
    text = text.strip()
    if len(text) <= most:
        return text
    head = (most - 3) // 3
    return f"{text[:head]} … {text[head - most + 3 :]}"


def count_lines(text: str, *, most_lines: int = 10, most: int = 600) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return beginning(f"{len(lines)} lines: " + "\n".join(lines[:most_lines]), most)
