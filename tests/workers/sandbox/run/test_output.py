from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepool.workers.sandbox.run.output import CommandLog


@given(sizes=st.lists(st.integers(min_value=1, max_value=5000), max_size=30), keep=st.integers(0, 20_000))
def test_the_bound_holds_and_both_ends_are_kept(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], keep: int
) -> None:
    """Output may arrive in any pieces. The log has a limit, and dropped bytes are counted."""
    log = tmp_path_factory.mktemp("output") / "log"
    data = b"".join(bytes([97 + number % 26]) * size for number, size in enumerate(sizes))
    with CommandLog(log, keep) as output:
        at = 0
        for size in sizes:
            output.take(data[at : at + size])
            at += size
    kept = log.read_bytes()
    assert len(kept) <= keep
    assert output.total == len(data)
    assert (output.dropped == 0) == (kept == data)
    assert data.endswith(output.tail.encode())
    assert len(output.tail) == min(len(data), 16 * 1024) or output.dropped
    assert data.startswith(output.head.encode())
    assert len(output.head) + len(output.tail) <= len(data)


def test_a_short_output_is_all_tail(tmp_path: Path) -> None:
    """Head and tail never repeat a byte."""
    with CommandLog(tmp_path / "log", 1000) as output:
        output.take(b"all of it")
    assert (output.head, output.tail, output.dropped) == ("", "all of it", 0)


def test_the_log_can_be_followed_while_it_grows(tmp_path: Path) -> None:
    """Output is in the file at once, for readers and after a SIGKILL."""
    with CommandLog(tmp_path / "log", 1000) as output:
        output.take(b"now")
        assert (tmp_path / "log").read_bytes() == b"now"


def test_a_full_disk_loses_log_and_nothing_else() -> None:
    """Bytes that cannot be written count as dropped, and both ends are still returned."""
    with Path("/dev/full").open("r+b", buffering=0) as full, CommandLog(Path("log"), 1000, full.fileno()) as output:
        output.take(b"first ")
        output.take(b"last")
    assert (output.total, output.dropped, output.tail) == (10, 10, "first last")


def test_a_log_is_for_its_owner_only(tmp_path: Path) -> None:
    """Output may contain secrets, so other users of the host cannot read it."""
    with CommandLog(tmp_path / "log", 1000):
        assert (tmp_path / "log").stat().st_mode & 0o077 == 0
