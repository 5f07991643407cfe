"""
The sources of the screens of `forgepool watch`: the home of this machine, or that of another one.

The other one is shown as a copy of its journals, kept up through the API of its `forgepool serve`. What a person does
there is done by that server.
"""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from pydantic import TypeAdapter, ValidationError

from forgepool.orchestrator.interfaces.rest.routes import RunCopy, TaskDiff
from forgepool.orchestrator.interfaces.watch.panes import Place, Tab, TaskPane, task_pane
from forgepool.orchestrator.interfaces.web.actions import act_on
from forgepool.orchestrator.interfaces.web.diff import WebDiff, mark_lines
from forgepool.orchestrator.journal.store import VERSION, Journal, Recorded, StoredEvent, last_number
from forgepool.orchestrator.reports.home import HomeView
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import is_run_name
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.workspace import TRANSCRIPT, attempt_logs
from forgepool.worktrees.errors import InfrastructureError

_LOOK_S, _WITHIN_S = 1.0, 30.0
_MOST_RUNS = 40
"""Runs that are copied beside those that are live, or need a person."""
_MOST_BYTES = 64_000_000
_RECORDED, _COPY, _DIFF = TypeAdapter(list[Recorded]), TypeAdapter(RunCopy), TypeAdapter(TaskDiff)


class OtherHomeAway(InfrastructureError):
    """The other machine's server cannot be reached, or answers nothing that can be used. One sentence."""


@dataclass(kw_only=True)
class OwnHome:
    """The home of this machine."""

    home: HomeView

    def act(self, run: str, given: Mapping[str, str]) -> str:
        """Do what a dialog asks for; return what follows. Raises CannotRun, NoSuchRun or JournalUnreadable."""
        return act_on(self.home, run, dict(given))

    def show_task(self, place: Place, tab: Tab, log: int | None) -> TaskPane:
        return task_pane(self.home, place, tab, log)


@dataclass(kw_only=True)
class OtherHome(OwnHome):
    """The home of another machine."""

    url: str
    token: str
    tell: Callable[[str], None] = lambda said: None
    """Called, from a thread, when the server goes away and when it is back."""
    _journals: dict[str, Journal] = field(default_factory=dict)
    """The copies of live runs: an open journal is one that is being written."""
    _numbers: dict[str, int] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)

    def act(self, run: str, given: Mapping[str, str]) -> str:
        body = {name: value for name, value in given.items() if name in ("do", "task", "candidate", "text", "by")}
        return str(self._ask(f"/runs/{quote(run)}/actions", body)["said"])

    def show_task(self, place: Place, tab: Tab, log: int | None) -> TaskPane:
        where = f"/runs/{quote(place.run)}/tasks/{quote(place.task, safe='')}"
        if tab == "transcript":
            self._bring_transcript(place, where)
        diff = None
        if tab == "diff":
            shown = _DIFF.validate_python(self._ask(f"{where}/diff"))
            diff = WebDiff(lines=tuple(mark_lines(shown.lines)), is_cut=shown.is_cut, trouble=shown.trouble)
        return task_pane(self.home, place, tab, log, diff=diff)

    def _bring_transcript(self, place: Place, where: str) -> None:
        """Copy the newest entries of the latest attempt's transcript; without one there is nothing to copy."""
        view = self.home.view(place.run)
        attempt = view.look(lambda look: look.state.tasks[place.task].attempt)
        path = attempt_logs(view.folder, place.task, attempt) / TRANSCRIPT
        known = path.read_bytes().count(b"\n") if path.is_file() else 0
        try:
            found = self._ask(f"{where}/transcript?{urlencode({'attempt': attempt, 'after': known})}")
        except CannotRun:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as kept:
            kept.writelines(f"{json.dumps(entry)}\n" for entry in found)

    def follow(self) -> None:
        """Copy once, then keep the copy up in a thread, until `close`. Raises CannotRun, OtherHomeAway."""
        self._copy()
        threading.Thread(target=self._go_on, daemon=True).start()

    def close(self) -> None:
        self._stop.set()

    def _go_on(self) -> None:
        away = ""
        while not self._stop.wait(_LOOK_S):
            try:
                self._copy()
                if away:
                    self.tell(f"{self.url} answers again.")
                away = ""
            except (CannotRun, OtherHomeAway) as lost:
                if not away:
                    self.tell(f"{lost}. The screen shows an earlier state until it answers.")
                away = str(lost)

    def _copy(self) -> None:
        """Copy what is new of the runs that are live or need a person, and of the latest others."""
        rows = self._ask("/runs")
        try:
            wanted = [row for at, row in enumerate(rows) if at < _MOST_RUNS or row["live"] or row["rows"]]
            for row in reversed(wanted):  # The latest last: a home lists its runs by the age of their folders.
                if is_run_name(row["run"]) and row["outcome"] != "unreadable":
                    self._copy_run(row["run"], live=row["live"], number=row["number"])
        except (ValidationError, KeyError, TypeError) as unread:
            why = "it may be of another version; use the same here and there"
            raise OtherHomeAway(f"what {self.url} answers cannot be read: {why}") from unread

    def _copy_run(self, run: str, *, live: bool, number: int) -> None:
        folder, known = self.home.settings.home / "runs" / run, self._numbers.get(run, 0)
        if not (folder / "options.json").is_file() or number != known:
            self._copy_files(run, folder)
        if known != number or live != (run in self._journals):
            journal = self._journals.pop(run, None) or Journal(folder)
            try:
                while found := _RECORDED.validate_python(self._ask(f"/runs/{quote(run)}/events?after={known}")):
                    journal.adopt([StoredEvent(one.number, one.at, VERSION, one.event.encode()) for one in found])
                    known = found[-1].number
            finally:
                self._numbers[run] = last_number(folder)
                if live:
                    self._journals[run] = journal
                else:
                    journal.close()

    def _copy_files(self, run: str, folder: Path) -> None:
        copy = _COPY.validate_python(self._ask(f"/runs/{quote(run)}/plans"))
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in copy.plans.items():
            if Path(name).name == name and name.startswith("plan") and name.endswith(".json"):
                (folder / name).write_text(text, encoding="utf-8")
        if not (folder / "options.json").is_file():
            (folder / "options.json").write_text(copy.options, encoding="utf-8")

    def _ask(self, path: str, body: Mapping[str, str] | None = None) -> Any:
        """Return the answer of the API. Raises CannotRun: the server's sentence; OtherHomeAway: there is no answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        request = urllib.request.Request(f"{self.url}/api{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=_WITHIN_S) as answer:
                return json.loads(answer.read(_MOST_BYTES))
        except urllib.error.HTTPError as refused:
            raise CannotRun(_sentence_of(refused)) from refused
        except (OSError, ValueError, ValidationError) as away:
            why = getattr(away, "reason", away)
            raise OtherHomeAway(f"{self.url} cannot be reached, or is no `forgepool serve` ({why})") from away


def _sentence_of(refused: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(refused.read(10_000))["error"])
    except (OSError, ValueError, KeyError, TypeError):
        return f"the server answers with status {refused.code}; see that it is a `forgepool serve`"


def open_other(url: str, settings: Settings, folder: Path) -> OtherHome:
    """Return the home at a URL, with its copy in a folder of its own. Raises CannotRun, OtherHomeAway."""
    token = settings.watch_token.get_secret_value() if settings.watch_token else ""
    if not token:
        raise CannotRun(
            "a home of another machine is shown to holders of its token alone; `forgepool serve --tokens` prints it "
            "there: put it into FORGEPOOL_WATCH_TOKEN"
        )
    own = settings.model_copy(update={"home": folder, "broker_url": None})
    other = OtherHome(home=HomeView(own, url.rstrip("/")), url=url.rstrip("/"), token=token)
    other.follow()
    return other
