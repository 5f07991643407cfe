"""A program in a fleet: its usage limit is known to all workers, and its work and words reach the hub."""

import os
from pathlib import Path

import pytest
from cli_kit import RECORDINGS, of_now
from host_kit import Host

from forgepool.orchestrator.run.hub import bring_home
from forgepool.workers.context.transcript.entries import Finished, parse_transcript
from forgepool.workers.schema.orders import CliAgent, WorkResult
from forgepool.worktrees.hub.mirror import open_mirror


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


def test_its_words_and_files_are_kept_when_its_work_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run's home gets the transcript, and the hub has the files at a ref of their own, not beside the words."""
    host, programs, home = Host(tmp_path), tmp_path / "bin", tmp_path / "orchestrator"
    host.unconfined()
    programs.mkdir()
    stand_in = programs / "claude"
    recorded = of_now(RECORDINGS / "claude" / "claude-success.jsonl", programs / "said")
    stand_in.write_text(f"#!/bin/sh\ncat >/dev/null\necho made > a\ncat '{recorded}'\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-local-000000")
    done = host.carry_out(agent=CliAgent(program="claude"), acceptance=("false",))
    assert (done.outcome, done.commit) == ("verify_failed", None), done.detail
    assert host.content(done.unverified, "a") == "made"
    assert host.hub_refs().split() == [
        "refs/forgepool/r/progress/t/1",
        "refs/forgepool/r/unverified/t/1",
        "refs/heads/main",
    ]
    assert host.content("refs/forgepool/r/progress/t/1", "files/a") == "1"
    bring_home(open_mirror(str(host.hub), tmp_path / "there"), "r", home)
    data = (home / "logs/orders/t/1/transcript.jsonl").read_bytes()
    assert host.transcript()[:-1] == parse_transcript(data, "kept")[:-1] and b"sk-local" not in data
    assert any(isinstance(entry, Finished) for entry in parse_transcript(data, "kept"))
