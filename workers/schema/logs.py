"""
Structured logs, never on standard output, and the hiding of keys in texts.

A file or a pipe gets one JSON object a line. A person at a terminal gets the warnings alone, in words.
"""

import hashlib
import logging
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO

import structlog


def log_to_stderr() -> None:
    """Send logs to standard error; an entry point calls this once."""
    _log_to(sys.stderr)


def log_to_file(path: Path, run: str) -> None:
    """Send the logs of a run to a file instead of standard error, which a person reads."""
    structlog.contextvars.bind_contextvars(trace_id=trace_id_of(run))
    _log_to(path.open("a", buffering=1, encoding="utf-8"))


def trace_id_of(run: str) -> str:
    """Return the id of a run's trace, as `forgepool export` gives it to its spans; 32 hex digits."""
    return hashlib.sha256(f"forgepool {run}".encode()).hexdigest()[:32]


def _log_to(stream: TextIO) -> None:
    logging.basicConfig(stream=stream, level=logging.WARNING, format="%(asctime)s %(name)s %(message)s", force=True)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _in_words if stream.isatty() else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING if stream.isatty() else logging.NOTSET),
        logger_factory=structlog.PrintLoggerFactory(file=stream),
        # A module's logger must follow when the stream changes.
        cache_logger_on_first_use=False,
    )


def _in_words(logger: object, method: str, event: structlog.typing.EventDict) -> str:
    """Render an event as `forgepool: hub away: no route to host (run r-1)`, a traceback by its last line."""
    name = str(event["event"]).replace(".", " ").replace("_", " ")
    why = " ".join(str(event.get("why", "")).split()) or str(event.get("exception", "")).rpartition("\n")[2]
    hidden = ("event", "level", "timestamp", "why", "exception")
    rest = ", ".join(f"{key} {value}" for key, value in event.items() if key not in hidden)
    line = f"forgepool: {name}{f': {why}' if why else ''}{f' ({rest})' if rest else ''}"
    return "".join(each if each.isprintable() else " " for each in line)


_SHORTEST = 6
"""Characters of the shortest secret that is hidden; a shorter one would occur in ordinary words."""


def hider(secrets: Iterable[str]) -> Callable[[str], str]:
    """
    Return a function that replaces each secret in a text by `[key hidden]`.

    It keeps the keys of this process out of prompts, transcripts and logs. It does not keep a command from reading
    them.
    """
    known = sorted({one for one in secrets if len(one) >= _SHORTEST}, key=len, reverse=True)
    if not known:
        return str
    pattern = re.compile("|".join(map(re.escape, known)))
    return lambda text: pattern.sub("[key hidden]", text)
