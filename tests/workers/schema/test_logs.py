"""In a file or pipe the log is JSON for programs; at a terminal a person reads its warnings as text."""

import json
import subprocess
import sys
from pathlib import Path

from terminal import on_terminal

ROOT = Path(__file__).parents[3]
_SCRIPT = """\
import structlog
from forgepool.workers.schema.logs import log_to_stderr

log_to_stderr()
log = structlog.get_logger()
log.info("network.reached", host="a")
log.warning("hub.away", run="r-1", why="no route\\nto \\x1b[31mhost")
try:
    raise KeyError("a")
except KeyError:
    log.exception("proxy.listener")
"""
_COMMAND = [sys.executable, "-c", _SCRIPT]


def test_a_person_sees_warnings_in_words() -> None:
    assert on_terminal(_COMMAND, cwd=ROOT, env={}).splitlines() == [
        "forgepool: hub away: no route to  [31mhost (run r-1)",
        "forgepool: proxy listener: KeyError: 'a'",
    ]


def test_a_program_reads_json_lines() -> None:
    ran = subprocess.run(_COMMAND, cwd=ROOT, capture_output=True, text=True, check=True)
    assert [json.loads(line)["event"] for line in ran.stderr.splitlines()] == [
        "network.reached",
        "hub.away",
        "proxy.listener",
    ]
