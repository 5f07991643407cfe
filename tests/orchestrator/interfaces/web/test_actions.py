"""Actions of the pages: each is the command line's word, reaches the inbox, and does what the command does."""

import html
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from kit import Machine, command, wait_until, write_plan
from web_home import RealHome, Reply, WebServer, build_home, serving

from forgepool.orchestrator.journal.inbox import waiting
from forgepool.orchestrator.journal.store import Journal


def forms_of(page: str) -> dict[str, dict[str, str]]:
    """Return the fields of each form of a page, by its word."""
    found: dict[str, dict[str, str]] = {}
    for form in re.findall(r'<form method="post".*?</form>', page, re.DOTALL):
        names = re.findall(r'<input[^>]* name="(\w+)" value="([^"]*)"', form)
        fields = {name: html.unescape(value) for name, value in names}
        found[fields["do"]] = fields
    return found


def press(server: WebServer, run: str, task: str, do: str, cookie: str, **given: str) -> Reply:
    """Open a task's page, fill in the form of that word, and send it, as a browser does."""
    page = server.ask("GET", f"/runs/{run}/tasks/{task}", cookie=cookie).text
    fields: Mapping[str, str] = {**forms_of(page)[do], **given}
    return server.post(run, fields, cookie=cookie, origin=f"http://127.0.0.1:{server.port}")


def after(server: WebServer, said: Reply, cookie: str) -> str:
    """Follow the answer to a form; return the sentence that the next page shows."""
    assert said.status == 303, said.text
    shown = server.ask("GET", said.headers["location"], cookie=cookie).text
    note = re.search(r'<p class="note" role="status">(.*?)</p>', shown, re.DOTALL)
    assert note is not None, shown
    return html.unescape(note[1])


def test_words_about_an_ended_run_are_journaled_and_the_resumed_run_lands_them(
    tmp_path: Path, redis_program: str
) -> None:
    machine, run = build_home(tmp_path)
    with serving(machine) as server:
        cookie = server.enter("operator")
        said = after(server, press(server, run, "asks", "answer", cookie, text="tabs", by="Ada"), cookie)
        assert said.startswith("asks: answered by Ada") and said.endswith(f"forgepool resume {run}")
        said = after(server, press(server, run, "writes", "approve", cookie, by="Ada"), cookie)
        assert said.startswith("writes: Ada approved ")
        attention = server.ask("GET", "/", cookie=cookie).text
        assert ">question<" not in attention and ">approval<" not in attention
        assert f"forgepool resume {run}" in attention, "the run waits to be resumed"
    machine.run("resume", run)
    phases = {row["task"]: row["phase"] for row in machine.run("status", run, "--json").answer["tasks"]}
    assert phases["writes"] == "landed"
    replies = [one.event for one in machine.journal(run) if one.event.kind == "task.replied"]
    assert [(one.reply.answer, one.reply.by) for one in replies] == [("tabs", "Ada")]


def test_words_about_a_live_run_are_left_in_its_inbox(other_home: tuple[Machine, str]) -> None:
    machine, run = other_home
    folder = machine.home / "runs" / run
    journal = Journal(folder)
    try:
        with serving(machine) as server:
            cookie = server.enter("operator")
            said = after(server, press(server, run, "writes", "reject", cookie, text="too short", by="Ada"), cookie)
            assert said == "The run is asked to reject writes; it does so at its next turn."
    finally:
        journal.close()
    ((_, left),) = waiting(folder)
    assert (left.do, left.task, left.text, left.by) == ("reject", "writes", "too short", "Ada")
    assert left.candidate and left.candidate == next(
        one.event.result.commit
        for one in machine.journal(run)
        if one.event.kind == "order.answered" and one.event.task == "writes"
    )


def test_a_live_run_does_what_the_page_asks(home: RealHome) -> None:
    machine = home.machine
    plan = write_plan(
        machine.folder,
        {
            "name": "slow",
            "target": "slow",
            "checks": "none",
            "tasks": [{"id": "sleeps", "agent": command("sleep 60; echo x > x.txt"), "files": ["x.txt"]}],
        },
    )
    started = machine.start("run", plan, "--repo", home.hub, "--workers", "1")
    run = wait_until(lambda: next((one for one in machine.runs() if one.startswith("slow-")), None), "the run")
    wait_until(lambda: "message.taken" in [one.event.kind for one in machine.journal(run)], "its task under way")
    with serving(machine) as server:
        cookie = server.enter("operator")
        page = server.ask("GET", "/", cookie=cookie).text
        assert f'href="/runs/{run}"' in page, "a live run of another process is shown"
        press(server, run, "sleeps", "cancel", cookie)
        assert started.ended(within_s=30).status == 1
        assert ">cancelled<" in server.ask("GET", f"/runs/{run}/tasks/sleeps", cookie=cookie).text


def test_an_approval_holds_for_the_candidate_that_was_shown(other_home: tuple[Machine, str]) -> None:
    machine, run = other_home
    with serving(machine) as server:
        token = f"Bearer {server.tokens['operator']}"
        fields = {"do": "approve", "task": "writes", "candidate": "0" * 40, "by": "Ada"}
        said = server.post(run, fields, authorization=token)
        assert said.status == 409 and "has another candidate by now" in html.unescape(said.text)
    assert "task.approved" not in [one.event.kind for one in machine.journal(run)]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"do": "destroy"}, "'destroy' is no action; actions are: answer, approve,"),
        ({"do": ""}, "'' is no action"),
        ({"do": "answer", "task": "asks", "by": "Ada"}, "the answer is empty; write one"),
        ({"do": "answer", "task": "asks", "text": "tabs"}, "your name is missing; it is kept with what you decide"),
        ({"do": "answer", "task": "lands", "text": "x", "by": "Ada"}, "there is nothing to answer about 'lands' now"),
        ({"do": "retry", "task": "nope"}, "there is nothing to retry about 'nope' now"),
        ({"do": "pause", "text": "why"}, "there is nothing to pause here now"),
        ({"do": "cancel"}, "there is nothing to cancel here now"),
    ],
)
def test_a_word_that_changes_nothing_is_refused(
    home: RealHome, server: WebServer, fields: dict[str, str], sentence: str
) -> None:
    before = len(home.machine.journal(home.run))
    said = server.post(home.run, fields, authorization=f"Bearer {server.tokens['operator']}")
    assert (said.status, sentence in html.unescape(said.text)) == (409, True), said.text
    assert len(home.machine.journal(home.run)) == before


def test_a_queue_is_paused_and_resumed_and_an_entry_is_tried_again(home: RealHome) -> None:
    machine, queue = home.machine, home.queue
    evil = next(one for one in home.entries if one.startswith("evil"))
    with serving(machine) as server:
        cookie = server.enter("operator")
        own = f"http://127.0.0.1:{server.port}"
        page = server.ask("GET", f"/runs/{queue}", cookie=cookie).text
        paused = server.post(queue, {**forms_of(page)["pause"], "text": "lunch"}, cookie=cookie, origin=own)
        assert after(server, paused, cookie).endswith("lunch")
        page = server.ask("GET", f"/runs/{queue}", cookie=cookie).text
        assert "The queue is paused: lunch" in page
        resumed = server.post(queue, forms_of(page)["go"], cookie=cookie, origin=own)
        assert "resumes" in after(server, resumed, cookie)
        said = after(server, press(server, queue, evil, "retry", cookie), cookie)
        assert "queued" in said
        assert (
            "No process serves the queue of main, which holds 1 submission"
            in server.ask("GET", "/", cookie=cookie).text
        )
        press(server, queue, evil, "reclass", cookie, text="hotfix")
        assert ">hotfix<" in server.ask("GET", f"/runs/{queue}", cookie=cookie).text
        press(server, queue, evil, "cancel", cookie)
    kinds = [one.event.kind for one in machine.journal(queue)]
    assert kinds[-5:] == ["gate.paused", "gate.resumed", "entry.submitted", "entry.reclassed", "task.cancelled"]


def test_a_form_that_names_no_page_of_this_server_goes_to_the_first_one(other_home: tuple[Machine, str]) -> None:
    machine, run = other_home
    with serving(machine) as server:
        cookie = server.enter("operator")
        said = press(server, run, "asks", "answer", cookie, text="tabs", by="Ada", back="http://[")
        assert after(server, said, cookie).startswith("asks: answered by Ada")
        assert said.headers["location"].startswith("/?done=")
        said = press(server, run, "writes", "approve", cookie, by="Ada", back="//evil.example/x")
        assert said.headers["location"].startswith(("/?done=", "/x?done="))
        fields = forms_of(server.ask("GET", f"/runs/{run}/tasks/fails", cookie=cookie).text)["retry"]
        assert server.post(run, fields, cookie=cookie, origin="http://[").status == 403
