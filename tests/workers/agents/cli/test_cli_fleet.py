"""A program's usage limit is met once, and all workers know it until it ends."""

import os
from pathlib import Path

import pytest
from cli_kit import RECORDINGS, of_now
from host_kit import Host

from forgepool.workers.schema.orders import CliAgent, WorkResult


def test_a_limit_that_one_order_meets_holds_back_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    """The second order does not start the program. It gets the time of the next try and costs no attempt."""
    host, programs = Host(tmp_path), tmp_path / "bin"
    host.unconfined()
    programs.mkdir()
    stand_in = programs / "claude"
    recorded = of_now(RECORDINGS / "claude" / "claude-usage-limit.jsonl", programs / "said")
    stand_in.write_text(f"#!/bin/sh\ncat >/dev/null\necho x >> {tmp_path}/started\ncat '{recorded}'\nexit 1\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-local-000000")
    host.settings = host.settings.model_copy(update={"broker_url": redis_url})

    def work(task: str) -> WorkResult:
        return host.carry_out(agent=CliAgent(program="claude"), order_id=f"r.{task}.1", task=task)

    first, second = work("one"), work("two")
    assert (first.outcome, second.outcome) == ("infrastructure", "infrastructure"), (first, second)
    assert first.not_before is not None and second.not_before is not None
    assert "shut off" in second.detail
    assert (tmp_path / "started").read_text() == "x\n"
