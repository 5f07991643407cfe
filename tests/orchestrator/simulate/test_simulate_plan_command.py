"""`forgepool simulate plan`: its text, its JSON, its chart, and its answers to wrong input."""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from people import Person, person_in

from forgepool.orchestrator.cli.run.check import check
from forgepool.orchestrator.cli.simulate import plan
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.worktrees.errors import UserError

PLAN = """
version: 1
name: night
checks: none
tasks:
  - {id: models, duration_s: 20m, files: ["src/models/**"], agent: {command: "true"}}
  - {id: api, duration_s: 35m, needs: [models], files: ["src/api/**"], agent: {command: "true"}}
  - {id: auth, duration_s: 40m, needs: [models], files: ["src/api/auth.py"], agent: {command: "true"}}
  - id: "page-{stem}"
    for_each: {files: "pages/*.md"}
    files: ["{path}"]
    agent: {command: "true"}
"""
KEYS = [
    *("simulated", "plan", "tasks", "workers", "trials", "seeds", "makespan_s", "all_landed_runs"),
    *("races", "middle", "cost", "bound", "one_more_worker", "grounds"),
]


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    made = person_in(tmp_path, {"plan.yaml": PLAN, "pages/one.md": "1", "pages/two.md": "2"})
    for name, value in made.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(made.folder)
    return made


def simulate(*argv: str, command: Callable[..., int] = plan) -> int:
    app = typer.Typer()
    app.command()(command)
    return app(list(argv), standalone_mode=False)  # type: ignore[no-any-return]  # as the app's main


def test_the_json_has_every_key(person: Person, capsys: pytest.CaptureFixture[str]) -> None:
    """It is one object. The plan is fanned out over the repository, and a second call prints the same."""
    said = []
    for _ in range(2):
        assert simulate("plan.yaml", "--workers", "2", "--seeds", "5", "--json") == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    found = json.loads(said[0])
    assert list(found) == KEYS and found["tasks"] == 5 and found["simulated"] is True
    assert list(found["makespan_s"]) == ["p5", "median", "p95"]
    assert {"by", "path", "lock_waits", "workers_all_busy", "checks_bottleneck"} <= found["bound"].keys()
    assert sum(found["bound"]["seconds"].values()) == pytest.approx(found["makespan_s"]["median"], abs=0.01)
    assert found["grounds"]["tasks"] == {"plan": 3, "assumed": 2}
    assert found["cost"]["most_usd"] == 0.0


def test_a_plan_that_races_is_played_and_the_racing_tasks_are_named(
    person: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    (person.folder / "raced.yaml").write_text(
        "version: 1\nname: raced\nchecks: none\nreview: none\n"
        "defaults: {agent: {builtin: {}}, attempts: {ladder: [gpt-5, claude-opus], race: 2}}\n"
        "tasks:\n- {id: deep, duration_s: 20m, files: [a]}\n- {id: wide, duration_s: 10m, files: [b]}\n"
        "- {id: told, duration_s: 1m, files: [c], agent: {command: 'true'}}\n"
    )
    assert simulate("raced.yaml", "--workers", "4", "--bad", "0.5", "--seeds", "5") == 0
    assert "races: deep; their first two models begin together, if slots are left\n" in capsys.readouterr().out
    simulate("raced.yaml", command=check)
    said = capsys.readouterr().out
    assert "\nlongest path: deep (20m by the plan's durations)\n" in said
    assert "\ndeep races: its first two models begin together\n" in said
    assert "\nwide does not race: it is not on the longest path of the plan\n" in said and "told" in said


def test_the_longest_path_tells_the_durations_that_the_plan_lacks(
    person: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    (person.folder / "timed.yaml").write_text(
        "version: 1\nname: timed\nchecks: none\nreview: none\ndefaults: {agent: {command: 'true'}}\n"
        "tasks:\n- {id: a, duration_s: 30m, files: [a]}\n- {id: b, needs: [a], files: [b]}\n"
    )
    simulate("timed.yaml", command=check)
    said = capsys.readouterr().out
    assert "\nlongest path: a -> b (1h by the plan's durations, assumed 30m for b)\n" in said


def test_the_words_name_every_bound(person: Person, capsys: pytest.CaptureFixture[str]) -> None:
    """There is a sentence for each bound. Without chance one run is simulated, and its numbers are exact."""
    assert simulate("plan.yaml", "--workers", "3", "--bad", "0", "--check-s", "60") == 0
    lines = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines() if ": " in line)
    assert lines["simulation of plan night"].startswith("5 tasks, 3 workers, 1 car checked at once, 1 run ")
    # models, then api and auth one after the other: 21 + 41 + 36 minutes and three seconds of landings.
    assert lines["makespan"] == "98.0 min"
    assert lines["locks"].endswith("'src/api/**' meets its 'src/api/auth.py'")
    assert lines["one more worker (4)"].startswith("would buy nothing")
    assert "3 from the plan (duration_s), 2 assumed" in lines["durations of tasks"]
    assert {"path", "workers", "checks", "cost", "landed", "not simulated"} <= lines.keys()


def test_missing_runs_are_reported(person: Person, capsys: pytest.CaptureFixture[str]) -> None:
    """`--from-runs` without a run says so. An unreadable run is named and left out."""
    broken = person.folder.parent / "home" / "runs" / "night-0101-1"
    broken.mkdir(parents=True)
    assert simulate("plan.yaml", "--from-runs", "--seeds", "1") == 0
    out = capsys.readouterr().out
    assert "earlier runs: there is none of plan night that can be read" in out
    assert re.search(r"left out: .*night-0101-1 is not a whole run", out)


def test_the_chart_names_each_task(person: Person) -> None:
    """The picture is self-contained and names each task."""
    assert simulate("plan.yaml", "--workers", "2", "--gantt", "night.svg", "--seeds", "3") == 0
    text = (person.folder / "night.svg").read_text()
    picture = ET.fromstring(text)
    assert "href" not in text and "script" not in text
    words = [one for one in picture.iter("{http://www.w3.org/2000/svg}text") if one.text]
    assert {"models", "api", "auth", "page-one", "page-two", "minutes", "waiting for a lock"} <= {
        one.text for one in words
    }
    assert {"worker 1", "worker 2", "gate", "landing", "locks"} <= {one.text for one in words}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--workers", "0"), "--workers is 0; it must be from 1 to 256"),
        (("--trials", "0"), "--trials is 0; it must be from 1 to 256"),
        (("--seeds", "0"), "--seeds is 0; it must be from 1 to 1000"),
        (("--bad", "1"), "--bad is 1; a probability is at least 0 and below 1"),
        (("--check-s", "-3"), "--check-s is -3; it must be a number of seconds above 0"),
        (("--gantt", "pages"), "--gantt pages is a folder; name a file in it, such as pages/plan.svg"),
        (("--gantt", "nowhere/x.svg"), "there is no folder .*nowhere; create it"),
    ],
)
def test_a_wrong_option_is_refused(person: Person, options: tuple[str, str], sentence: str) -> None:
    """The sentence says what would be right, and the exit status is 2."""
    with pytest.raises(UserError, match=sentence):
        simulate("plan.yaml", *options)


def test_a_wrong_plan_is_refused(person: Person) -> None:
    """The message is that of `forgepool run`, with file and line."""
    (person.folder / "wrong.yaml").write_text("version: 1\nname: x\ntasks: []\n")
    with pytest.raises(DocumentWrong, match=r"wrong\.yaml:3: 'tasks' is empty"):
        simulate("wrong.yaml")
