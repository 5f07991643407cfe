"""The queue simulator in benchmarks/queue: its JSON, its table, and its answers to wrong options."""

import json

import pytest
import typer
from simulate import queue

from forgepool.orchestrator.cli.simulate import register

KEYS = [
    "policy",
    "p50_min",
    "p95_min",
    "p99_min",
    "landed_per_h",
    "runs_per_change",
    "wasted_pct",
    "false_reject_pct",
    "red_moves",
    "exactness_violations",
    "decided_pct",
]
SMALL = ("--changes", "12", "--seeds", "1")


def simulate(*argv: str) -> int:
    app = typer.Typer()
    app.command()(queue)
    return app([*argv], standalone_mode=False)  # type: ignore[no-any-return]  # as the app's main


def test_json_has_every_policy_and_key(capsys: pytest.CaptureFixture[str]) -> None:
    """There is one object a line for each policy, in the order requested, all with the same keys."""
    assert simulate("--json", *SMALL) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["policy"] for row in rows] == ["forgepool", "serial", "bors", "zuul", "zuulfix", "gh", "oracle"]
    assert all(list(row) == KEYS for row in rows)
    assert all(row["red_moves"] == row["exactness_violations"] == 0 for row in rows)


def test_the_table_explains_its_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """The table has a row for each policy, explains its columns, and warns of too high a load."""
    assert simulate("--policy", "bors", "--policy", "forgepool", "--rate", "60", "--workers", "1", *SMALL) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["policy", "P50", "P95", "P99"]
    assert [line.split()[0] for line in lines[1:3]] == ["bors", "forgepool"]
    assert "60 arrivals an hour" in lines[-1]


@pytest.mark.parametrize(("written", "as_named"), [("2", "1,2"), ("4-5", "4,5")])
def test_seeds_are_a_number_a_list_or_a_range(written: str, as_named: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for seeds in (written, as_named):
        simulate("--json", "--policy", "forgepool", "--changes", "12", "--seeds", seeds)
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (("--workers", "0"), "--workers is 0; it is 1 or more"),
        (("--rate", "0"), "--rate is 0; arrivals an hour are a number above 0"),
        (("--rate", "nan"), "--rate is nan; arrivals an hour are a number above 0"),
        (("--bad", "1.5"), "--bad is 1.5; a probability is from 0 to less than 1, as in 0.08"),
        (("--flake", "-0.1"), "--flake is -0.1; a probability is from 0 to less than 1, as in 0.08"),
        (("--retries", "-1"), "--retries is -1; it is 0 or more"),
        (("--changes", "0"), "--changes is 0; it is 1 or more"),
        (
            ("--burst", "9", "--changes", "4"),
            "--burst is 9, and only 4 arrive at all; give at most that, or more --changes",
        ),
        (("--seeds", "1,x"), "--seeds has 'x'; give numbers as in 1,2,3, a range as in 101-110, or how many"),
        (("--seeds", "0"), "--seeds '0' are no worlds; give from 1 to 1000"),
        (("--seeds", "1-9000"), "--seeds '1-9000' are 1001 worlds; give from 1 to 1000"),
        (("--policy", "zull"), "--policy: there is no policy 'zull'; did you mean 'zuul'?"),
    ],
)
def test_a_wrong_option_is_refused_in_one_sentence(argv: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(typer.BadParameter) as told:
        simulate(*argv)
    assert str(told.value) == sentence
    assert told.value.exit_code == 2


def test_the_command_says_where_the_simulator_is(capsys: pytest.CaptureFixture[str]) -> None:
    """`forgepool simulate queue` was a command once. With any options it now names the benchmark that replaces it."""
    app = typer.Typer()
    register(app)
    assert app(["simulate", "queue", "--workers", "8"], standalone_mode=False) == 2
    assert "run benchmarks/queue/simulate.py in Forgepool's repository" in capsys.readouterr().err
