"""Attacks on the server: foreign hosts, strangers, forged forms, oversized and slow requests. None gets anything."""

import http.client
import re
import signal
import socket
import stat
import sys
import time
from pathlib import Path

import pytest
from kit import Machine, wait_until
from web_home import RealHome, WebServer, serving

from forgepool.orchestrator.interfaces.web.access import LINK_S, WebAccess, read_key
from forgepool.orchestrator.run.hub import CannotRun


def retry_form(home: RealHome, **fields: str) -> dict[str, str]:
    return {"do": "retry", "task": "blocked", "candidate": "", "text": "", "by": "", "back": "/", **fields}


def journal_numbers(home: RealHome) -> tuple[int, int]:
    inbox = home.machine.home / "runs" / home.run / "inbox"
    return len(home.machine.journal(home.run)), len(list(inbox.glob("*.json"))) if inbox.is_dir() else 0


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1", "", "[::2]:1"]
)
def test_a_request_that_names_another_host_is_refused(server: WebServer, host: str) -> None:
    """A page of another name that resolves to this address (DNS rebinding) sends its own name."""
    for path in ("/", "/static/app.css", server.links["operator"]):
        refused = server.ask("GET", path, token=server.tokens["operator"], Host=host)
        assert (refused.status, refused.cookie) == (421, "")


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST", "[::1]:{port}"])
def test_its_own_names_are_let_in(server: WebServer, host: str) -> None:
    token = server.tokens["viewer"]
    assert server.ask("GET", "/", token=token, Host=host.format(port=server.port)).status == 200


def test_a_link_opens_once_and_its_cookie_is_for_this_site_alone(home: RealHome) -> None:
    with serving(home.machine) as server:
        assert server.ask("HEAD", server.links["operator"]).cookie == ""
        entered = server.ask("GET", server.links["operator"])
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(entered.headers["set-cookie"].split("; "))
        assert server.ask("GET", "/", cookie=entered.cookie).status == 200
        again = server.ask("GET", server.links["operator"])
        assert (again.status, again.cookie) == (401, "")
        assert server.ask("GET", "/enter?code=").status == 401


def test_a_cookie_holds_after_the_server_was_started_again(home: RealHome) -> None:
    with serving(home.machine) as server:
        cookie = server.enter("viewer")
        port = server.port
    with serving(home.machine, port) as again:
        assert again.ask("GET", "/", cookie=cookie).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Bearer "},
        {"authorization": "Basic {operator}"},
        {"authorization": "Bearer {operator}x"},
        {"cookie": "forgepool-{port}=operator.9999999999.abcd.ffff"},
        {"cookie": "forgepool-{port}=operator"},
        {"cookie": "forgepool-1={cookie}"},
        {"cookie": "forgepool-{port}={swapped}"},
    ],
)
def test_a_stranger_sees_nothing_and_does_nothing(home: RealHome, server: WebServer, headers: dict[str, str]) -> None:
    cookie = server.cookie("viewer")
    swapped = cookie.replace("viewer", "operator")
    given = {"port": str(server.port), "operator": server.tokens["operator"], "cookie": cookie, "swapped": swapped}
    sent = {name: value.format(**given) for name, value in headers.items()}
    before = journal_numbers(home)
    for path in ("/", "/runs", f"/runs/{home.run}", f"/runs/{home.run}/tasks/asks", "/stream", "/nothing"):
        page = server.ask("GET", path, **sent)
        assert page.status in (401, 404) and home.run not in page.text and "Tabs" not in page.text, path
    assert server.post(home.run, retry_form(home), **sent).status == 401
    assert journal_numbers(home) == before


def test_a_viewer_only_looks(home: RealHome, server: WebServer) -> None:
    before = journal_numbers(home)
    said = server.post(home.run, retry_form(home), authorization=f"Bearer {server.tokens['viewer']}")
    assert said.status == 403 and "only looks" in said.text
    page = server.get(f"/runs/{home.run}/tasks/asks").text
    assert '<form method="post"' not in page and "forgepool answer" in page
    assert journal_numbers(home) == before


def test_a_form_that_no_page_of_this_server_sent_is_refused(home: RealHome) -> None:
    with serving(home.machine) as server:
        cookie = server.enter("operator")
        own = f"http://127.0.0.1:{server.port}"
        page = server.ask("GET", f"/runs/{home.run}/tasks/asks", cookie=cookie).text
        token = page.partition('name="token" value="')[2].partition('"')[0]
        before = journal_numbers(home)
        for fields, origin in (
            ({}, own),
            ({"token": ""}, own),
            ({"token": "0" * 64}, own),
            ({"token": token}, "http://evil.example"),
            ({"token": token}, f"http://127.0.0.1:{server.port + 1}"),
            ({"token": token}, "null"),
        ):
            refused = server.post(home.run, retry_form(home, **fields), cookie=cookie, origin=origin)
            assert refused.status == 403, (fields, origin)
        with_another = server.post(home.run, retry_form(home, token=token), cookie=server.enter("viewer"), origin=own)
        assert with_another.status == 403
        assert journal_numbers(home) == before


def test_a_look_changes_nothing(home: RealHome, server: WebServer) -> None:
    before = journal_numbers(home)
    token = server.tokens["operator"]
    assert server.ask("GET", f"/runs/{home.run}/act?do=retry&task=blocked", token=token).status == 405
    assert server.ask("PUT", f"/runs/{home.run}", token=token).status == 405
    assert journal_numbers(home) == before


def test_an_oversized_form_is_refused(home: RealHome, server: WebServer) -> None:
    token = f"Bearer {server.tokens['operator']}"
    said = server.post(home.run, retry_form(home, text="x" * 70_000), authorization=token)
    assert said.status == 413
    long_text = server.post(
        home.run, {**retry_form(home), "do": "answer", "task": "asks", "text": "x" * 30_000}, authorization=token
    )
    assert long_text.status == 409 and "longer than 20,000 characters" in long_text.text
    many = server.ask(
        "POST",
        f"/runs/{home.run}/act",
        body="&".join(f"a{number}=1" for number in range(50)),
        token=server.tokens["operator"],
    )
    assert many.status == 400


def test_an_oversized_head_is_refused(server: WebServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        line.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 200_000 + b"\r\n\r\n")
        answer = http.client.HTTPResponse(line)
        answer.begin()
        assert answer.status == 400


def test_back_leads_to_this_server_alone(other_home: tuple[Machine, str]) -> None:
    machine, run = other_home
    backs = {"//evil.example/x": "/x", "http://evil.example/": "/", "/\\evil.example": "/"}
    with serving(machine) as server:
        token = f"Bearer {server.tokens['operator']}"
        for do, (back, leads_to) in zip(("retry", "cancel", "retry"), backs.items(), strict=True):
            fields = {"do": do, "task": "fails", "candidate": "", "back": back}
            said = server.post(run, fields, authorization=token)
            assert (said.status, said.headers["location"].partition("?")[0]) == (303, leads_to)


def test_the_key_is_its_owners_alone_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    key = read_key(tmp_path)
    path = tmp_path / "web.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_key(tmp_path) == key and len(key) == 32
    assert [one.name for one in tmp_path.iterdir()] == ["web.key"]
    path.write_bytes(b"")
    with pytest.raises(CannotRun, match=r"web\.key is no key of 32 bytes; remove it"):
        read_key(tmp_path)


def test_a_link_that_waited_too_long_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    access = WebAccess(key=b"k" * 32, names=frozenset(), is_loopback=True, cookie="")
    code = access.new_link("viewer")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + LINK_S + 1)
    assert access.use_link(code) is None


def test_an_address_in_use_and_a_wrong_one_are_one_sentence(home: RealHome, server: WebServer) -> None:
    taken = home.machine.run("serve", "--http", f"127.0.0.1:{server.port}")
    assert (taken.status, taken.err.count("\n")) == (
        2,
        1,
    ) and f"the server cannot listen at 127.0.0.1:{server.port}: Address already in use" in taken.err
    wrong = home.machine.run("serve", "--http", "nowhere")
    assert (wrong.status, wrong.err.count("\n")) == (2, 1) and "is not HOST:PORT" in wrong.err


def test_an_address_that_others_reach_is_said_to_be_plain(home: RealHome) -> None:
    started = home.machine.start("serve", "--http", "0.0.0.0:0", "--name", "forge.example")
    wait_until(lambda: "plain HTTP" in started.err.read_text(), "the warning")
    port = int(started.out.read_text().partition("0.0.0.0:")[2].partition(",")[0])
    server = WebServer(machine=home.machine, started=started, port=port, links={}, tokens={})
    try:
        assert server.ask("GET", "/", Host="forge.example").status == 401
        assert server.ask("GET", "/", Host="evil.example").status == 421
        assert server.ask("GET", "/", Host="192.168.1.7:80").status == 401
    finally:
        server.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
def test_the_usual_address_shares_its_cookies_with_no_other_server_of_this_machine(home: RealHome) -> None:
    started = home.machine.start("serve")
    said = wait_until(lambda: re.search(r"at http://([\d.]+):(\d+),", started.out.read_text()), "the address")
    assert said[1] == "127.0.83.20"
    connection = http.client.HTTPConnection(said[1], int(said[2]), timeout=30)
    connection.request("GET", "/")
    assert connection.getresponse().status == 401
    connection.close()
    started.process.send_signal(signal.SIGTERM)
    started.ended(within_s=20)
