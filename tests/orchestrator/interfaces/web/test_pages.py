"""Every page over real runs: it is there, its numbers agree, and hostile texts in it are texts."""

import html
import re
import shutil
from pathlib import Path

import pytest
from web_home import EVIL_BRANCH, HOSTILE, RealHome, WebServer

from forgepool.orchestrator.interfaces.watch.panes import Place, task_pane
from forgepool.orchestrator.reports.home import HomeView
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.workspace import TRANSCRIPT

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
POLICY += "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
TASKS = ("lands", "fails", "blocked", "asks", "writes")


def pages_of(home: RealHome) -> list[str]:
    run, queue = f"/runs/{home.run}", f"/runs/{home.queue}"
    entries = [f"{queue}/tasks/{one}" for one in home.entries]
    tasks = [f"{run}/tasks/{task}" for task in TASKS]
    diffs = [f"{run}/tasks/lands/diff", f"{run}/tasks/writes/diff", f"{run}/tasks/blocked/diff"]
    filters = [f"{run}?show=done", f"{run}?q=nothing+like+it&page=7", f"{queue}?q=good"]
    more = [f"{one}/{part}" for one in (run, queue) for part in ("money", "graph")]
    return [
        "/",
        "/runs",
        "/hosts",
        "/money",
        *more,
        run,
        f"{run}/report",
        queue,
        f"{queue}/report",
        *tasks,
        *entries,
        *diffs,
        *filters,
    ]


def test_every_page_is_there_and_lets_no_foreign_thing_in(home: RealHome, server: WebServer) -> None:
    for path in pages_of(home):
        page = server.get(path)
        assert (page.status, page.headers["content-security-policy"]) == (200, POLICY), path
        assert page.headers["x-content-type-options"] == "nosniff"
        assert not re.search(r"<script(?! src=\"/static/live.js)|\sstyle=|\son\w+=|https?://(?!127)", page.text), path


def test_hostile_texts_are_shown_as_texts(home: RealHome, server: WebServer) -> None:
    """The titles, questions, transcripts, logs and branch names of the home carry scripts and terminal sequences."""
    shown = {path: server.get(path).text for path in pages_of(home)}
    for path, page in shown.items():
        assert HOSTILE not in page, path
        assert EVIL_BRANCH not in page, path
        assert "\x1b" not in page and "\\x1b" not in page, path
        assert "]0;taken" not in page, path
    run = f"/runs/{home.run}"
    escaped = html.escape(HOSTILE).replace("&#x27;", "&#39;")
    for place in ("/", run, f"{run}/tasks/lands", f"{run}/tasks/asks", f"{run}/tasks/fails"):
        assert escaped in shown[place], f"{place} does not show the hostile text at all"
    assert html.escape(EVIL_BRANCH) in shown[f"/runs/{home.queue}"]


def test_a_page_and_a_screen_say_the_attempts_of_a_task_with_the_same_words(home: RealHome, server: WebServer) -> None:
    settings = Settings(home=home.machine.home, cache=home.machine.cache)
    screen = task_pane(HomeView(settings), Place(run=home.run, task="fails"), "about", None)
    assert ("", "attempts: 1; 1 of 1 allowed has failed") in screen.lines
    page = server.get(f"/runs/{home.run}/tasks/fails").text
    assert '<dt>Attempts</dt><dd class="num">1; 1 of 1 allowed has failed</dd>' in page


@pytest.mark.parametrize("path", ["/", "/runs", "/hosts"])
def test_the_badge_is_the_number_of_rows(server: WebServer, path: str) -> None:
    rows = server.get("/").text.count('<li data-key="')
    badge = re.search(r'id="badge"[^>]*>(\d+)<', server.get(path).text)
    assert badge is not None
    assert (int(badge[1]), rows) == (4, 4)


def test_the_start_page_shows_what_the_command_lists(home: RealHome, server: WebServer) -> None:
    listed = home.machine.run("attention", "--json").answer
    assert [(row["cause"], row["task"]) for row in listed][:3] == [
        ("question", "asks"),
        ("approval", "writes"),
        ("failed", "fails"),
    ]
    page = html.unescape(server.get("/").text)
    assert all(f"<code>{row['command']}</code>" in page for row in listed)
    said = home.machine.run("attention").out
    assert said.count("\n    forgepool ") == len(listed)


def test_a_filter_shows_its_tasks_alone(home: RealHome, server: WebServer) -> None:
    page = server.get(f"/runs/{home.run}?show=needs+you").text
    assert [task for task in TASKS if f'<tr data-key="{task}">' in page] == ["asks", "writes"]


def test_a_task_shows_its_log_transcript_and_diff(home: RealHome, server: WebServer) -> None:
    run = f"/runs/{home.run}/tasks"
    failed = server.get(f"{run}/fails").text
    assert "red\n" in failed and "red: </span></span>agent</a>" in failed
    assert failed.count("the command ended with status 1") == 1, "a reason stands once"
    assert "I have to know" in server.get(f"{run}/asks").text
    assert '<div class="line added">+docs</div>' in server.get(f"{run}/writes/diff").text
    assert "There is no change yet." in server.get(f"{run}/blocked/diff").text
    for entry in home.entries:
        assert '<div class="line added">+x</div>' in server.get(f"/runs/{home.queue}/tasks/{entry}/diff").text


@pytest.mark.parametrize(
    "path",
    [
        "/runs/nope",
        "/runs/..%2f..%2fetc",
        "/runs/..",
        "/runs/.hidden",
        "/runs/nope/tasks/x",
        "/static/..%2fapp.py",
        "/static/nope.css",
        "/nothing",
        "/stream?run=..%2f..",
    ],
)
def test_what_is_not_there_is_not_found(server: WebServer, path: str) -> None:
    assert server.get(path).status == 404


def test_a_log_is_chosen_by_its_number_and_never_by_a_path(home: RealHome, server: WebServer) -> None:
    task = f"/runs/{home.run}/tasks/fails"
    usual = server.get(task)
    for log in ("../../../../web.key", "/etc/passwd", "999999", "-1"):
        assert server.get(f"{task}?log={log}").text == usual.text


def test_an_unreadable_journal_hides_no_other(home: RealHome, server: WebServer) -> None:
    broken = home.machine.home / "runs" / "broken-run"
    broken.mkdir()
    (broken / "options.json").write_text("{}")
    try:
        page = server.get("/runs").text
        assert "broken-run is not a whole run" in page and home.run in page
        assert server.get("/runs/broken-run").status == 503
        assert server.get("/").status == 200
    finally:
        (broken / "options.json").unlink()
        broken.rmdir()


def test_a_long_transcript_is_shown_from_its_end(home: RealHome, server: WebServer) -> None:
    path = next((home.machine.home / "runs" / home.run).glob(f"**/asks/**/{TRANSCRIPT}"))
    kept = path.read_bytes()
    first, *_ = said = [line for line in kept.splitlines(keepends=True) if b"I have to know" in line]
    assert len(said) >= 1
    try:
        path.write_bytes(kept + first * (3_000_000 // len(first)) + first.replace(b"I have to know", b"The very end"))
        page = server.get(f"/runs/{home.run}/tasks/asks").text
        assert "The very end" in page and "A part of it; all of it:" in page
    finally:
        path.write_bytes(kept)


def test_a_removed_run_is_forgotten(home: RealHome, tmp_path: Path) -> None:
    copied = tmp_path / "runs" / home.run
    shutil.copytree(home.machine.home / "runs" / home.run, copied)
    view = HomeView(Settings(home=tmp_path))
    assert [one.run for one in view.summaries()] == [home.run]
    shutil.rmtree(copied)
    assert (view.summaries(), view._summaries) == ([], {})
