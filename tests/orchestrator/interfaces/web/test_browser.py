"""
The pages in a real browser: Debian's Chromium, driven by Playwright. Skipped where either is missing.

`FORGEPOOL_AXE` names the file `axe.min.js` of axe-core, with which the pages are also tested for accessibility.
"""

import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit import Machine, wait_until
from web_home import RealHome, WebServer, serving

from forgepool.orchestrator.decisions.queue.intake import apply_request
from forgepool.orchestrator.journal.events import EntrySubmitted, Event
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.journal.store import Journal, read
from forgepool.orchestrator.state.fold import apply
from forgepool.orchestrator.state.run import RunState

CHROMIUM = shutil.which("chromium")
playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; apt-get install chromium"),
]
_WORDS = ("pause", "go", "hold", "release", "reclass", "cancel", "retry")
_MAIN = "document.querySelector('main').outerHTML + document.querySelector('header nav').outerHTML"
_CUT_TABLES = (
    "[...document.querySelectorAll('.scroll:has(table)')].filter(one => one.scrollWidth > one.clientWidth).length"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        # A sandbox of its own is refused to root.
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


def visit(browser: Any, server: WebServer, **looks: Any) -> tuple[Any, list[str]]:
    """Return a page of a visitor with an operator's cookie, and what the browser complains about."""
    context = browser.new_context(**looks)
    context.add_cookies(
        [{"name": f"forgepool-{server.port}", "value": server.cookie("operator"), "url": at(server, "")}]
    )
    page, complaints = context.new_page(), list[str]()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    foreign = f"http://127.0.0.1:{server.port}/"
    page.on("request", lambda request: None if request.url.startswith(foreign) else complaints.append(request.url))
    return page, complaints


def at(server: WebServer, path: str) -> str:
    return f"http://127.0.0.1:{server.port}{path}"


def random_events(state: RunState, chance: random.Random) -> Iterator[Event]:
    """Yield what random requests of people, and random submissions, lead to."""
    while True:
        name = f"entry-{chance.randrange(8)}"
        if name not in state.tasks or chance.random() < 0.2:
            task = state.tasks.get(name)
            if task is None or task.phase in ("queued", "cancelled"):
                yield EntrySubmitted(
                    task=name,
                    branch=f"feature/{name}",
                    revision=1 if task is None else task.attempt + 1,
                    commit=f"{chance.randrange(16**12):040x}",
                    title="t",
                    by=chance.choice(("ada", "<b>grace</b>")),
                )
            continue
        do = chance.choice(_WORDS)
        text = chance.choice(("hotfix", "normal", "low")) if do == "reclass" else "why"
        about = None if do in ("pause", "go") else name
        yield from apply_request(state, PersonRequest(do=do, task=about, text=text, by="ada")) or ()


@pytest.mark.parametrize("seed", range(3))
def test_a_page_that_was_open_is_what_a_reload_shows(browser: Any, home: RealHome, seed: int) -> None:
    folder = home.machine.home / "runs" / home.queue
    state = RunState.blank(())
    for one in read(folder):
        apply(state, one.event, number=one.number, at=one.at)
    journal = Journal(folder)
    try:
        with serving(home.machine) as server:
            pages = [visit(browser, server) for _ in range(2)]
            for (page, _), path in zip(pages, (f"/runs/{home.queue}", "/"), strict=True):
                page.goto(at(server, path))
                wait_until(lambda page=page: page.evaluate("source !== null && source.readyState === 1"), "the stream")
            events = random_events(state, random.Random(seed))
            for _ in range(40):
                event = next(events)
                apply(state, event, number=state.number + 1, at=time.time())
                journal.append([event], at=time.time())
            last = str(state.number)
            for page, complaints in pages:
                if page.url.endswith(home.queue):
                    wait_until(lambda page=page: page.evaluate("document.body.dataset.seen") == last, "the last event")
                fresh = page.context.new_page()
                fresh.goto(page.url)
                right = fresh.evaluate(_MAIN)
                wait_until(lambda page=page, right=right: page.evaluate(_MAIN) == right, "what a reload shows")
                assert complaints == []
    finally:
        journal.close()


def test_a_question_is_answered_while_events_come_in(browser: Any, other_home: tuple[Machine, str]) -> None:
    """The text that a person types stays, whatever the page takes over meanwhile."""
    machine, run = other_home
    with serving(machine) as server:
        page, complaints = visit(browser, server)
        page.goto(at(server, "/"))
        page.get_by_role("link", name="Answer about asks").click()
        page.get_by_label("Your answer").fill("tabs")
        page.evaluate("window.asked = document.querySelector('textarea')")
        assert machine.run("retry", run, "fails", "--no-resume").status == 0
        wait_until(lambda: page.evaluate("document.body.dataset.seen") is not None, "the page to follow")
        assert page.get_by_label("Your answer").input_value() == "tabs"
        assert page.evaluate("window.asked.isConnected")
        page.get_by_role("button", name="Answer", exact=True).click()
        page.get_by_text("asks: answered by").first.wait_for()
        page.get_by_role("link", name="Attention").click()
        assert page.get_by_text("question", exact=True).count() == 0
        assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_accessible_and_fits_a_phone(
    browser: Any, home: RealHome, server: WebServer, scheme: str
) -> None:
    page, complaints = visit(
        browser, server, viewport={"width": 360, "height": 740}, color_scheme=scheme, bypass_csp=True
    )
    axe = os.environ.get("FORGEPOOL_AXE", "")
    run = f"/runs/{home.run}"
    tasks = [f"{run}/tasks/{task}" for task in ("asks", "writes", "fails")]
    entries = [f"/runs/{home.queue}", *(f"/runs/{home.queue}/tasks/{entry}" for entry in home.entries[:2])]
    for path in (
        "/",
        "/runs",
        "/hosts",
        "/money",
        run,
        f"{run}/money",
        f"{run}/graph",
        f"{run}/report",
        f"{run}/tasks/writes/diff",
        *tasks,
        *entries,
    ):
        page.goto(at(server, path))
        assert page.evaluate("document.documentElement.scrollWidth") == 360, path
        assert page.evaluate(_CUT_TABLES) == 0, path
        assert page.title().startswith("("), "no script of a hostile text has run"
        if axe:
            page.evaluate(Path(axe).read_text())
            assert page.evaluate("axe.run().then(found => found.violations.map(one => one.id))") == [], path
    assert complaints == []
