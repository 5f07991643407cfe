"""Structured logs: one JSON object a line, on standard error or in a file, never on standard output."""

import logging
import sys
from pathlib import Path
from typing import TextIO

import structlog


def log_to_stderr() -> None:
    """Called once, at an entry point; whoever started the process keeps standard error in a file."""
    _log_to(sys.stderr)


def log_to_file(path: Path) -> None:
    """For a process whose standard error is read by a person; may be called after `log_to_stderr`."""
    _log_to(path.open("a", buffering=1, encoding="utf-8"))


def _log_to(stream: TextIO) -> None:
    logging.basicConfig(stream=stream, level=logging.WARNING, format="%(asctime)s %(name)s %(message)s", force=True)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(file=stream),
        # A module's logger must follow when the stream changes.
        cache_logger_on_first_use=False,
    )
