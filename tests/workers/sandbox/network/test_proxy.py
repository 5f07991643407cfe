import contextlib
import socket
import threading
import time
from collections.abc import Callable

import pytest
from proxy_kit import OK, PATIENCE_S, Way, Web, addresses, everything
from structlog.testing import capture_logs

from forgepool.workers.sandbox.network.exchange import ProxyLimits, ProxyRecord
from forgepool.workers.sandbox.network.hosts import Address, read_rules
from forgepool.workers.sandbox.network.outlet import Proxy, proxy_variables


def get(place: str, *fields: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} http://{place}/path?query HTTP/1.1", *fields, "", ""]).encode()


def test_a_plain_request_reaches_its_host_as_if_sent_to_it() -> None:
    """The host sees a path and its own name, and no header meant for the proxy. The client gets the answer."""
    with Web() as web, Way([web.place]) as way:
        of_this_hop = ("X-Hop: 2", "Upgrade: websocket", "Keep-Alive: timeout=5", "TE: trailers")
        fields = ("Host: evil.example.com", "X-Mine: 1", "Proxy-Authorization: Basic c2VjcmV0", "Proxy-Connection: x")
        answer = way.ask(get(web.place, *fields, "Connection: X-Hop", *of_this_hop))
        expected = f"GET /path?query HTTP/1.1\r\nHost: {web.place}\r\nX-Mine: 1\r\nConnection: close\r\n\r\n"
        assert web.heard == [expected.encode()]
        assert answer == b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


def test_a_tunnel_carries_bytes_both_ways_and_each_end_by_itself() -> None:
    """A client that has finished sending still receives the host's answer."""
    with Web(b"heard", until=b"the end") as web, Way([web.place]) as way:
        with way.tunnel(web.place) as client:
            client.sendall(b"x" * 500_000 + b"the end")
            client.shutdown(socket.SHUT_WR)
            assert everything(client) == b"heard"
        assert web.heard == [b"x" * 500_000 + b"the end"]
        told = way.last()
        assert (told.host, told.port, told.allowed, told.why) == ("127.0.0.1", web.port, True, "at 127.0.0.1")
        assert (told.sent_bytes, told.received_bytes) == (500_007, 5)


@pytest.mark.parametrize("asked", ["CONNECT evil.example.com:443 HTTP/1.1", "GET http://evil.example.com/ HTTP/1.1"])
def test_a_host_that_is_not_allowed_is_answered_with_the_way_in(asked: str) -> None:
    """Most clients show only the first line of a refusal, so it has the sentence."""
    with Way(["packages.example.org"]) as way:
        answer = way.ask(f"{asked}\r\n\r\n".encode()).decode()
        first, _, rest = answer.partition("\r\n")
        sentence = first.removeprefix("HTTP/1.1 403 ")
        assert "evil.example.com" in sentence
        assert "network: [evil.example.com]" in sentence
        assert rest.endswith(f"\r\n\r\n{sentence}\n")
        told = way.last()
        assert (told.host, told.allowed, told.why) == ("evil.example.com", False, sentence)


def test_an_empty_list_lets_nothing_through() -> None:
    """This includes this machine's own loopback."""
    with Web() as web, Way([]) as way:
        assert way.ask(get(web.place)).startswith(b"HTTP/1.1 403 ")
        assert web.heard == []


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("name.example.org", ("127.0.0.1",)),
        ("name.example.org", ("::1",)),
        ("name.example.org", ("10.0.0.1",)),
        ("name.example.org", ("93.184.215.14", "127.0.0.1")),
        ("*.example.org", ("::ffff:127.0.0.1",)),
        ("*.example.org:80", ("127.0.0.1",)),
        ("name.example.org:80", ("169.254.169.254",)),
        ("name.example.org:80", ("127.0.0.1", "0.0.0.0")),
    ],
)
def test_an_allowed_name_that_leads_to_a_private_address_is_refused(pattern: str, found: tuple[str, ...]) -> None:
    """The name's owner decides where it leads. No connection is made."""
    with Way([pattern], look_up=lambda host: addresses(*found)) as way:
        assert way.ask(get("name.example.org")).startswith(b"HTTP/1.1 403 name.example.org is at ")
        assert not way.last().allowed


def test_the_address_connected_to_is_the_one_that_was_judged() -> None:
    """The name is resolved once, because it may lead elsewhere a moment later."""
    asked: list[str] = []

    def rebinding(host: str) -> tuple[Address, ...]:
        asked.append(host)
        return addresses("127.0.0.1") if len(asked) == 1 else addresses("169.254.169.254")

    with Web() as web, Way([f"name.example.org:{web.port}"], look_up=rebinding) as way:
        assert way.ask(get(f"name.example.org:{web.port}")).endswith(b"ok")
        assert asked == ["name.example.org"]
        assert way.ask(get(f"name.example.org:{web.port}")).startswith(b"HTTP/1.1 403 ")


def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    """A name may have an address in a network that this machine lacks."""
    with Web() as web:
        both = addresses("127.0.0.2", "127.0.0.1")
        with Way([f"name.example.org:{web.port}"], look_up=lambda host: both) as way:
            assert way.ask(get(f"name.example.org:{web.port}")).endswith(b"ok")
            assert way.last().why == "at 127.0.0.1"


def test_a_second_request_on_a_connection_goes_nowhere() -> None:
    """It would reach another host behind the same address on the judgement of the first request."""
    with Web(keeps_open=True) as web, Way([web.place]) as way:
        second = f"GET / HTTP/1.1\r\nHost: other.example.org\r\nContent-Length: 3\r\n\r\nabc{get(web.place).decode()}"
        answer = way.ask(get(web.place) + second.encode())
        assert answer.count(b"HTTP/1.1") == 1
        assert len(web.heard) == 1
        assert b"other.example.org" not in web.heard[0]


def test_a_body_ends_where_it_says_and_nothing_follows_it() -> None:
    """The end is given by length or chunks. Extensions and trailers, which readers treat differently, are dropped."""
    with Web(until=b"body") as web, Way([web.place]) as way:
        after = b"GET http://evil.example.com/ HTTP/1.1\r\n\r\n"
        way.ask(get(web.place, "Content-Length: 9", method="POST") + b"some body" + after)
        assert web.heard[-1].endswith(b"\r\nContent-Length: 9\r\nConnection: close\r\n\r\nsome body")
    with Web(until=b"\r\n0\r\n\r\n") as web, Way([web.place]) as way:
        chunks = b"5;x=y\r\nsome \r\n004\r\nbody\r\n0\r\nX-Trailer: 1\r\n\r\n"
        way.ask(get(web.place, "Transfer-Encoding: Chunked", method="POST") + chunks + after)
        assert web.heard[-1].endswith(b"chunked\r\nConnection: close\r\n\r\n5\r\nsome \r\n4\r\nbody\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    "body",
    [
        b"zz\r\n\r\n",
        b"-5\r\nsome \r\n",
        b"4\r\nsomebody\r\n0\r\n\r\n",
        b"4\r\nsome::0\r\n\r\n",
        b"5\r\nso",
        b"5 \nsome \r\n",
    ],
)
def test_a_body_without_its_end_is_no_whole_body_for_the_host(body: bytes) -> None:
    """The host does not take an incomplete or malformed body for a complete request."""
    with Web(until=b"0\r\n\r\n") as web, Way([web.place]) as way:
        with way.connect() as client:
            client.sendall(get(web.place, "Transfer-Encoding: chunked", method="POST") + body)
            client.shutdown(socket.SHUT_WR)
            assert not everything(client).startswith(b"HTTP/1.1 200 ")
        wait_for(lambda: web.over == [0])
        assert b"0\r\n\r\n" not in web.heard[0]


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nHost: PLACE\r\n\r\n",
        b"GET https://PLACE/ HTTP/1.1\r\n\r\n",
        b"GET ftp://PLACE/ HTTP/1.1\r\n\r\n",
        b"GET http:///path HTTP/1.1\r\n\r\n",
        b"GET http://user:secret@PLACE/ HTTP/1.1\r\n\r\n",
        b"GET http://evil.example.com\\@PLACE/ HTTP/1.1\r\n\r\n",
        b"GET http://PLACE\0.example.org/ HTTP/1.1\r\n\r\n",
        b"GET http://PLACE/# HTTP/1.1\r\n\r\n",
        b"GET http://PLACE/ HTTP/2\r\n\r\n",
        b"GET http://PLACE/\r\n\r\n",
        b"GET  http://PLACE/ HTTP/1.1\r\n\r\n",
        b"GET http://PLACE/ a HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01 nonsense\r\n\r\n",
        b"\r\n\r\n",
        b"CONNECT 127.0.0.1 HTTP/1.1\r\n\r\n",
        b"CONNECT user@PLACE HTTP/1.1\r\n\r\n",
        b"CONNECT http://PLACE HTTP/1.1\r\n\r\n",
        b"GET http://PLACE/ HTTP/1.1\r\nX-A : 1\r\n\r\n",
        b"GET http://PLACE/ HTTP/1.1\r\nX-A: 1\r\n folded\r\n\r\n",
        b"GET http://PLACE/ HTTP/1.1\r\nX-A: 1\nX-B: 2\r\n\r\n",
        b"GET http://PLACE/ HTTP/1.1\r\nX-A: 1\rX-B: 2\r\n\r\n",
        b"GET http://PLACE/ HTTP/1.1\r\nX-A: \0\r\n\r\n",
        b"GET http://PLACE/ HTTP/1.1\r\nno field\r\n\r\n",
        b"POST http://PLACE/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST http://PLACE/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST http://PLACE/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"POST http://PLACE/ HTTP/1.1\r\nContent-Length: +1\r\n\r\na",
        b"POST http://PLACE/ HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\na",
        b"POST http://PLACE/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET http://PLACE/ HTTP/1.1\r\nX-A: " + b"a" * 40_000 + b"\r\n\r\n",
    ],
)
def test_what_can_be_read_in_two_ways_is_not_read(said: bytes) -> None:
    """It is answered with one line, recorded, and sent to no host."""
    with Web() as web, Way([web.place]) as way:
        answer = way.ask(said.replace(b"PLACE", web.place.encode()))
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"secret" not in answer
        assert b"; " in answer.partition(b"\r\n")[0]
        assert web.heard == []
        assert not way.last().allowed


@pytest.mark.parametrize("host", ["127.1", "0x7f000001", "0177.0.0.1", "2130706433", "[::ffff:7f00:1]", "[::]"])
def test_an_address_in_another_notation_is_no_way_around_the_list(host: str) -> None:
    """The system's resolver would accept each of them as this machine."""
    with Web() as web, Way([f"127.0.0.2:{web.port}"]) as way:
        assert way.ask(f"CONNECT {host}:{web.port} HTTP/1.1\r\n\r\n".encode())[9:12] in (b"400", b"403")
        assert web.heard == []


def test_an_interim_answer_is_passed_on_before_the_answer() -> None:
    """A client that waits for 100 Continue gets it, and then the answer."""
    with Web(b"HTTP/1.1 100 Continue\r\n\r\n" + OK) as web, Way([web.place]) as way:
        answer = way.ask(get(web.place))
        assert answer.count(b"HTTP/1.1 ") == 2
        assert answer.endswith(b"ok")


@pytest.mark.parametrize(
    ("method", "answer", "body"),
    [
        ("GET", OK, b"ok"),
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n", b""),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 12\r\n\r\n", b""),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        ("GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", b"2\r\nok\r\n0\r\n\r\n"),
    ],
)
def test_an_answer_ends_though_its_host_stays(method: str, answer: bytes, body: bytes) -> None:
    """A host that keeps the connection open does not delay the client."""
    with Web(answer, keeps_open=True) as web, Way([web.place]) as way:
        assert way.ask(get(web.place, method=method)).partition(b"\r\n\r\n")[2] == body


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    """The oldest servers answer like this."""
    with Web(b"HTTP/1.0 200 OK\r\n\r\nall of it") as web, Way([web.place]) as way:
        assert way.ask(get(web.place)) == b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nall of it"


@pytest.mark.parametrize("said", [b"Transfer-Encoding: chunked\r\n\r\n5\r\nhal", b"Content-Length: 5\r\n\r\nhal"])
def test_an_answer_broken_off_is_not_made_to_look_whole(said: bytes) -> None:
    """The client's connection breaks, too."""
    with Web(b"HTTP/1.1 200 OK\r\n" + said) as web, Way([web.place]) as way:
        client = way.connect()
        client.sendall(get(web.place))
        with client, pytest.raises(ConnectionResetError):
            everything(client)


def test_a_request_broken_off_is_broken_off_for_its_host_too() -> None:
    """Neither side waits for the other's time limit."""
    with Web(until=b"never") as web, Way([web.place]) as way, way.connect() as client:
        client.sendall(get(web.place, "Content-Length: 9", method="POST") + b"some")
        client.shutdown(socket.SHUT_WR)
        assert everything(client).startswith(b"HTTP/1.1 502 ")
        wait_for(lambda: web.over == [0])


def test_a_refusal_reaches_a_client_that_is_still_sending() -> None:
    """Closing a socket with unread bytes would discard the refusal."""
    with Way([]) as way:
        body = b"x" * 8_000_000
        answer = way.ask(get("evil.example.com", f"Content-Length: {len(body)}", method="POST") + body)
        assert answer.startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 101 Switching\r\n\r\n", b"", b"HTTP/1.1 2"])
def test_a_host_that_does_not_speak_http_is_a_bad_gateway(answer: bytes) -> None:
    """The client gets an error, not an empty answer."""
    with Web(answer) as web, Way([web.place]) as way:
        assert way.ask(get(web.place)).startswith(b"HTTP/1.1 502 127.0.0.1: ")


def test_a_host_that_cannot_be_reached_is_named_with_the_reason() -> None:
    """The host was allowed, so the list is not at fault."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
    with Way([place]) as way:
        assert way.ask(get(place)).startswith(f"HTTP/1.1 502 {place}: Connection refused\r\n".encode())
        assert way.last().allowed


def test_a_name_without_an_address_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """A name server that does not answer does not block the client forever."""
    never = threading.Event()

    def no_address(host: str) -> tuple[Address, ...]:
        if host == "slow.example.org":
            never.wait(PATIENCE_S)
        raise OSError(-2, "Name or service not known")

    with Way(["*.example.org"], look_up=no_address, limits=ProxyLimits(connect_s=0.1)) as way:
        assert b"502 none.example.org:80: its name has no address" in way.ask(get("none.example.org"))
        assert b"502 slow.example.org:80: it does not answer" in way.ask(get("slow.example.org"))
        never.set()
        wait_for(lambda: not any(thread.name.startswith("lookup") for thread in threading.enumerate()))
        way.ask(get("none.example.org"))
    assert caplog.records == []  # an answer may come too late


def test_only_so_many_names_are_looked_up_at_once() -> None:
    """Each lookup takes a thread for as long as the system's resolver needs."""
    never = threading.Event()

    def slow(host: str) -> tuple[Address, ...]:
        never.wait(PATIENCE_S)
        return ()

    limits = ProxyLimits(connect_s=0.02)
    with Way(["*.example.org"], look_up=slow, limits=limits) as way:
        answers = [way.ask(get(f"{number}.example.org")) for number in range(33)]
        never.set()
    assert all(b"it does not answer" in each for each in answers[:32])
    assert b"502 32.example.org:80: too many names are being looked up; " in answers[32]


def test_more_connections_than_it_bears_are_turned_away_until_some_end() -> None:
    """They get an answer at once."""
    with Web() as web, Way([web.place], limits=ProxyLimits(connections=2)) as way:
        with way.tunnel(web.place), way.tunnel(web.place), way.connect() as third:
            assert everything(third).startswith(b"HTTP/1.1 503 more than 2 connections at once; ")
        wait_for(lambda: len(way.told) == 3)
        assert way.ask(get(web.place)).endswith(b"ok")


def test_a_client_that_says_nothing_is_let_go() -> None:
    """Half a request counts as none."""
    with Way([], limits=ProxyLimits(head_s=0.1)) as way, way.connect() as client:
        client.sendall(b"CONNECT a")
        assert everything(client) == b""


def test_a_tunnel_ends_when_nothing_passes_and_lives_while_something_does() -> None:
    """The time counts from the last byte in either direction."""
    limits = ProxyLimits(idle_s=0.2)
    with Web(until=b"never") as web, Way([web.place], limits=limits) as way, way.tunnel(web.place) as client:
        began = time.monotonic()
        client.settimeout(0.05)
        while time.monotonic() - began < 0.4:
            client.sendall(b"x")
            with contextlib.suppress(TimeoutError):
                assert client.recv(1) == b"nothing comes"
        client.settimeout(PATIENCE_S)
        assert everything(client) == b""
        with way.tunnel(web.place) as silent:
            assert everything(silent) == b""


def test_a_listener_that_fails_to_be_told_harms_no_other_connection() -> None:
    """The failure is logged and affects only that connection."""

    def told(what: ProxyRecord) -> None:
        raise RuntimeError("no room in the journal")

    with Proxy((), report=told) as proxy, socket.create_server(("127.0.0.1", 0)) as listener, capture_logs() as logs:
        proxy.serve(listener)
        for _ in range(2):
            with socket.create_connection(listener.getsockname(), timeout=PATIENCE_S) as client:
                client.sendall(get("evil.example.com"))
                assert everything(client) == b""
        proxy.close()
        assert [each["event"] for each in logs] == ["proxy.connection"] * 2


def test_a_forward_leads_to_one_host_without_a_word_of_http() -> None:
    """It is for clients that cannot use proxies. Its connections are recorded like others."""
    with Web(b"heard", until=b"hello") as web, Way([web.place]) as way:
        inside = socket.create_server(("127.0.0.1", 0))
        way.proxy.forward(inside, "127.0.0.1", web.port)
        with socket.create_connection(inside.getsockname(), timeout=PATIENCE_S) as client:
            client.sendall(b"hello")
            assert everything(client) == b"heard"
        told = way.last()
        assert (told.host, told.port, told.sent_bytes, told.received_bytes) == ("127.0.0.1", web.port, 5, 5)


def test_a_forward_to_what_is_not_allowed_is_never_begun() -> None:
    """A list and a forward that disagree are a mistake of the caller."""
    inside = socket.create_server(("127.0.0.1", 0))
    with inside, Way(["packages.example.org"]) as way, pytest.raises(ValueError, match="443 is not among"):
        way.proxy.forward(inside, "evil.example.com", 443)


def test_a_forward_is_judged_anew_for_each_connection() -> None:
    """A name that now leads to a private address is refused by closing."""
    with Way(["packages.example.org"], look_up=lambda host: addresses("10.0.0.1")) as way:
        inside = socket.create_server(("127.0.0.1", 0))
        way.proxy.forward(inside, "packages.example.org", 443)
        with socket.create_connection(inside.getsockname(), timeout=PATIENCE_S) as client:
            assert everything(client) == b""
        assert not way.last().allowed


def test_a_forward_to_itself_comes_to_an_end() -> None:
    """The chain of connections stops at the limit and closes completely."""
    inside = socket.create_server(("127.0.0.1", 0))
    port = inside.getsockname()[1]
    with Web() as web, Way([f"127.0.0.1:{port}", web.place], limits=ProxyLimits(connections=20)) as way:
        way.proxy.forward(inside, "127.0.0.1", port)
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
            everything(client)
        wait_for(lambda: len(way.told) >= 21)
        assert way.ask(get(web.place)).endswith(b"ok")


def test_close_ends_everything_at_once() -> None:
    """Open tunnels, silent clients and lookups are not waited for, and no thread is left."""
    never = threading.Event()

    def slow(host: str) -> tuple[Address, ...]:
        never.wait(PATIENCE_S)
        return ()

    before = set(threading.enumerate())
    with Web() as web, Way([web.place, "*.example.org"], look_up=slow) as way, contextlib.ExitStack() as clients:
        tunnel = clients.enter_context(way.tunnel(web.place))
        silent = clients.enter_context(way.connect())
        asking = clients.enter_context(way.connect())
        asking.sendall(get("slow.example.org"))
        wait_for(lambda: any(thread.name.startswith("lookup") for thread in threading.enumerate()))
        began = time.monotonic()
        way.proxy.close()
        assert time.monotonic() - began < 1.0
        for client in (tunnel, silent, asking):
            with contextlib.suppress(ConnectionResetError):
                assert everything(client) == b""
        with pytest.raises(ConnectionRefusedError):
            way.connect()
        assert not any(thread.name == "proxy" for thread in set(threading.enumerate()) - before)
        assert [told.host for told in way.told] == ["127.0.0.1"]
        never.set()
    wait_for(lambda: not any(thread.name.startswith("lookup") for thread in threading.enumerate()))


def test_a_listener_released_takes_its_connections_along_and_no_others() -> None:
    """After the release all of its exchanges are recorded."""
    with Web() as web, Way([web.place]) as way:
        other = socket.create_server(("127.0.0.1", 0))
        way.proxy.forward(other, "127.0.0.1", web.port)
        with way.tunnel(web.place) as mine, socket.create_connection(other.getsockname(), PATIENCE_S) as others:
            way.proxy.release(way.listener)
            assert len(way.told) == 1
            assert way.listener.fileno() == -1
            with contextlib.suppress(ConnectionResetError):
                assert everything(mine) == b""
            others.sendall(get(web.place))
            assert everything(others).endswith(b"ok")


def test_programs_find_the_proxy_by_their_environment() -> None:
    """Both spellings are set, because some programs read only one. The command's own loopback is excluded."""
    variables = proxy_variables(3128)
    assert variables["https_proxy"] == variables["HTTP_PROXY"] == "http://127.0.0.1:3128"
    assert "127.0.0.1" in variables["NO_PROXY"].split(",")


def test_a_proxy_may_be_closed_twice() -> None:
    """The code that ends the command closes it, and so does the `with` block."""
    with Proxy(read_rules([]), report=lambda record: None) as proxy:
        proxy.close()


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)
