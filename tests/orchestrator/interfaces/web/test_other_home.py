"""The terminal's screens of a home on another machine: they show what its own show, and act there."""

import asyncio
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from kit import Machine, wait_until
from web_home import serving

from forgepool.orchestrator.interfaces.watch.panes import Place, home_pane, run_pane
from forgepool.orchestrator.interfaces.watch.screens import ListScreen, WatchApp
from forgepool.orchestrator.interfaces.watch.source import OtherHome, OtherHomeAway, OwnHome, open_other
from forgepool.orchestrator.interfaces.web.pages import RowFilter
from forgepool.orchestrator.journal.events import TaskReplied
from forgepool.orchestrator.journal.store import Journal
from forgepool.orchestrator.reports.home import HomeView
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.schema.settings import Settings


def own_of(machine: Machine) -> OwnHome:
    return OwnHome(home=HomeView(Settings(home=machine.home, cache=machine.cache)))


def other_of(url: str, token: str, folder: Path) -> OtherHome:
    (folder / "copy").mkdir(parents=True)
    settings = Settings(home=folder / "unused", cache=folder / "cache", watch_token=token)  # type: ignore[arg-type]  # a secret
    return open_other(url, settings, folder / "copy")


def test_the_copy_shows_what_the_other_machine_shows_and_acts_there(
    other_home: tuple[Machine, str], tmp_path: Path
) -> None:
    machine, run = other_home
    own, said = own_of(machine), list[str]()
    with serving(machine) as server:
        url = f"http://127.0.0.1:{server.port}"
        other = other_of(url, server.tokens["operator"], tmp_path)
        other.tell = said.append

        def is_alike() -> bool:
            ours, theirs = home_pane(own.home), home_pane(other.home)
            alike = (ours.rows, ours.wants) == (theirs.rows, theirs.wants)
            return alike and run_pane(own.home, run, RowFilter()) == run_pane(other.home, run, RowFilter())

        wait_until(is_alike, "the copy")
        assert home_pane(other.home).facts[0].startswith(f"{url}: runs and queues: ")
        for task, tab in (("writes", "about"), ("writes", "transcript"), ("writes", "diff"), ("asks", "transcript")):
            shown = other.show_task(Place(run=run, task=task), tab, None)  # type: ignore[arg-type]  # a tab
            assert shown.lines == own.show_task(Place(run=run, task=task), tab, None).lines  # type: ignore[arg-type]
            assert len(shown.lines) > 3, (task, tab)
        journal = Journal(machine.home / "runs" / run)
        wait_until(is_alike, "that it is under way")
        journal.close()
        answered = other.act(run, {"do": "answer", "task": "asks", "text": "tabs", "by": "Ada"})
        assert answered.startswith("asks: answered by Ada"), answered
        assert any(isinstance(one.event, TaskReplied) for one in machine.journal(run))
        wait_until(is_alike, "what follows from the answer")
        with pytest.raises(CannotRun, match="there is nothing to answer about 'asks' now"):
            other.act(run, {"do": "answer", "task": "asks", "text": "tabs", "by": "Ada"})

        async def look() -> None:
            app = WatchApp(other, "")
            async with app.run_test(size=(80, 24)) as pilot:
                for _ in range(100):
                    await pilot.pause(0.05)
                    screen = app.screen
                    if isinstance(screen, ListScreen) and screen.pane is not None and screen.pane.rows:
                        return
                raise AssertionError("no row was shown")

        asyncio.run(look())
        other.tell = said.append
    wait_until(lambda: said, "the sentence about the server that is gone")
    assert said[0].startswith(f"{url} cannot be reached") and said[0].endswith("until it answers."), said
    with serving(machine, server.port):
        wait_until(lambda: len(said) > 1, "the sentence about the server that is back")
        assert said[1] == f"{url} answers again."
    other.close()


def test_what_is_wrong_with_a_url_or_a_token_is_said(other_home: tuple[Machine, str], tmp_path: Path) -> None:
    machine, _ = other_home
    with serving(machine) as server:
        url = f"http://127.0.0.1:{server.port}"
        said = machine.run("watch", url)
        assert (said.status, said.out) == (2, "") and "needs a terminal" in said.err
        with pytest.raises(CannotRun, match="put it into FORGEPOOL_WATCH_TOKEN"):
            open_other(url, Settings(home=tmp_path), tmp_path)
        with pytest.raises(CannotRun, match="this server does not know the token"):
            other_of(url, "wrong", tmp_path)
    began = time.monotonic()
    with pytest.raises(OtherHomeAway, match=f"{url} cannot be reached, or is no `forgepool serve`"):
        other_of(f"{url}/", "wrong", tmp_path / "again")
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "answer", ["[{}]", "{", '[{"run": "r-1", "live": true, "rows": [], "outcome": "running", "number": 1}]']
)
def test_a_server_of_another_kind_or_version_is_said_to_be_one(tmp_path: Path, answer: str) -> None:
    class Stranger(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, format: str, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Stranger) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(OtherHomeAway, match=r"is no `forgepool serve`|may be of another version"):
            other_of(f"http://127.0.0.1:{server.server_port}", "token", tmp_path)
        server.shutdown()
