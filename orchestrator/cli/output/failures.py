"""Sentences for mistakes in settings, and failures of the machine, of Redis and of Forgepool itself."""

import os
import sqlite3
import time
import traceback

from pydantic import ValidationError

from forgepool.workers.queue.broker import BrokerAway
from forgepool.workers.schema.settings import Settings, mistake_in_settings


def sentence_and_status(failure: Exception) -> tuple[str, int]:
    """Return what to say and the exit status. A bug has its traceback kept in a file, which the sentence names."""
    if isinstance(failure, ValidationError) and (mistake := mistake_in_settings(failure)):
        return mistake, 2
    if isinstance(failure, sqlite3.Error | OSError):
        return _of_this_machine(failure), 3
    if isinstance(failure, BrokerAway):
        return str(failure), 3
    return f"something unforeseen happened; {_kept_traceback()}", 3


def _kept_traceback() -> str:
    """Write the traceback of a bug to a file; return the sentence that says where it is."""
    folder = Settings().home / "logs"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
        path.write_text(traceback.format_exc())
    except OSError:
        return f"it cannot be written to {folder}: {traceback.format_exc().strip().splitlines()[-1]}"
    return f"{path} has the details; what was journaled is safe, `forgepool resume` goes on from there"


def _of_this_machine(trouble: sqlite3.Error | OSError) -> str:
    """Return the sentence for a disk or a file, with the file first and without an error number."""
    said = str(trouble)
    if isinstance(trouble, OSError) and trouble.strerror:
        said = f"{trouble.filename}: {trouble.strerror}" if trouble.filename else trouble.strerror
    return f"{said}; what was journaled is safe: mend it, then `forgepool resume`"
