"""`forgepool context replay` as a person types it: a table or JSON of recorded runs, or a sentence about a mistake."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import warm

ROOT = Path(__file__).parents[3]
KEYS = [
    *("profile", "cost_usd", "cost_vs_append_pct", "cost_with_refetch_pct", "fresh_tokens", "written_tokens"),
    *("cached_tokens", "hit_rate", "peak_tokens", "mean_tokens", "rebuilds", "model_calls", "needs_lost_pct"),
    *("steps_hit_pct", "anchors_lost_pct"),
]


def replay(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    return warm.forgepool(["context", "replay", *words], cwd=ROOT, env=os.environ)


def rows(*words: str | Path) -> list[dict[str, float | str]]:
    said = replay(*words, "--json")
    assert (said.returncode, said.stderr) == (0, ""), said
    found: list[dict[str, float | str]] = json.loads(said.stdout)
    return found


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Return a run that reads twenty files and then the first one again."""
    steps = [
        {"tool": "read_file", "input": {"path": f"src/f{at}.py"}, "output": f"def name_{at}(): pass\n" * 80, "turn": at}
        for at in [*range(20), 0]
    ]
    for turn, step in enumerate(steps):
        step["turn"] = turn
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"source": {}, "task": "mend it", "steps": steps}))
    return path


def test_json_has_one_object_for_each_row_with_the_promised_keys(recording: Path) -> None:
    found = rows(recording)
    assert all(list(row) == KEYS for row in found)
    names = [row["profile"] for row in found]
    assert len(names) == len(set(names)) and names[0] == "append-only"
    peers = {"ledger", "pace", "ghost", "soulforge-v1", "soulforge-v2", "forge", "advisory", "off"}
    assert peers | {"uncached", "oracle", "floor", "oracle+inputs", "floor+inputs"} <= set(names)
    by_name = {str(row["profile"]): row for row in found}
    assert by_name["append-only"]["cost_vs_append_pct"] == 0
    assert by_name["uncached"]["fresh_tokens"] > 0 and by_name["append-only"]["fresh_tokens"] == 0  # type: ignore[operator]


@pytest.mark.parametrize(
    "words", [("--profile", "off", "--profile", "ledger"), ("--profile", "off,ledger"), ("--profile", "off", "ledger")]
)
def test_rows_are_those_asked_for_in_their_order(recording: Path, words: tuple[str, ...]) -> None:
    assert [row["profile"] for row in rows(recording, *words)] == ["off", "ledger"]


def test_a_file_that_is_called_like_a_profile_is_a_file(recording: Path, tmp_path: Path) -> None:
    named = tmp_path / "off"
    named.write_bytes(recording.read_bytes())
    argv = [
        sys.executable,
        "-m",
        "forgepool.orchestrator.cli",
        "context",
        "replay",
        "--profile",
        "ledger",
        "off",
        "--json",
    ]
    said = subprocess.run(argv, cwd=tmp_path, env={"PATH": ""}, capture_output=True, text=True, check=False)
    assert [row["profile"] for row in json.loads(said.stdout)] == ["ledger"], said


def test_folders_are_all_their_recordings_and_totals_are_over_all(recording: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "below"
    folder.mkdir(parents=True)
    for name in ("one.json", "two.json"):
        (folder / name).write_bytes(recording.read_bytes())
    (folder / "notes.txt").write_text("no recording")
    (one,), (two,) = rows(recording, "--profile", "off"), rows(tmp_path / "runs", "--profile", "off")
    assert two["cached_tokens"] == 2 * one["cached_tokens"]  # type: ignore[operator]
    assert two["peak_tokens"] == one["peak_tokens"]


def test_the_table_says_what_was_reckoned_with_and_what_was_left_out(recording: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text('{"task": 1, "steps": 2}')
    said = replay(tmp_path, "--profile", "ledger", "--window", "64000", "--ttl", "300")
    assert said.returncode == 0
    assert "append-only" in said.stdout and "ledger" in said.stdout and "USD" in said.stdout
    for word in ("1 recording, 21 calls", "Prices anthropic", "64,000 tokens", "300 s", "2,500 tokens assumed in 1"):
        assert word in said.stdout, said.stdout
    assert "skipped: " in said.stdout and "broken.json" in said.stdout
    # The path of what was left out is as long as it is.
    assert max(len(line) for line in said.stdout.splitlines() if "skipped: " not in line) < 160


def test_prices_of_ones_own_are_reckoned_with(recording: Path, tmp_path: Path) -> None:
    own = tmp_path / "prices.yaml"
    own.write_text("{fresh: 30, written: 37.5, cached: 3, output: 150}")
    ours, theirs = rows(recording, "--profile", "off"), rows(recording, "--profile", "off", "--prices", own)
    assert theirs[0]["cost_usd"] == pytest.approx(10 * ours[0]["cost_usd"], rel=1e-3)  # type: ignore[operator]
    automatic = rows(recording, "--profile", "pace", "--prices", "openai")
    assert automatic[0]["cost_usd"] <= rows(recording, "--profile", "pace")[0]["cost_usd"]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("/nowhere.json",), ("/nowhere.json", "no such file")),
        (("RECORDING", "--profile", "ledgr"), ("ledgr", "'ledger'")),
        (("RECORDING", "--prices", "cheap"), ("cheap", "no such file")),
        (("RECORDING", "--prices", "WRONG"), ("wrong.yaml", "output")),
        (("RECORDING", "--window", "0"), ("--window", "1")),
        (("RECORDING", "--window", "many"), ("--window", "integer")),
        (("WRONG",), ("wrong.yaml", "transcript")),
        (("EMPTY",), ("empty", "no recording", ".jsonl")),
        (("--profile", "ledger", "off"), ("no recording is named",)),
        ((), ("FILE",)),
    ],
)
def test_wrong_words_are_answered_with_one_sentence(
    recording: Path, tmp_path: Path, words: tuple[str, ...], told: tuple[str, ...]
) -> None:
    (tmp_path / "wrong.yaml").write_text("{fresh: 3, written: 4, cached: 1}")
    (tmp_path / "empty").mkdir()
    places = {"RECORDING": recording, "WRONG": tmp_path / "wrong.yaml", "EMPTY": tmp_path / "empty"}
    said = replay(*(places.get(word, word) for word in words))
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (2, "", 1), said
    for word in told:
        assert word in said.stderr, said.stderr
