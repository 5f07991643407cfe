"""The API of `forgepool serve`: its document is compared with the routes and with the real answers of real runs."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from web_home import RealHome, WebServer, serving

from forgepool.orchestrator.interfaces.web.access import WebAccess
from forgepool.orchestrator.interfaces.web.app import web_app
from forgepool.orchestrator.reports.home import HomeView
from forgepool.workers.schema.settings import Settings


@pytest.fixture(scope="module")
def home(copy_home: Callable[[Path], RealHome], tmp_path_factory: pytest.TempPathFactory) -> RealHome:
    return copy_home(tmp_path_factory.mktemp("rest"))


@pytest.fixture(scope="module")
def server(home: RealHome) -> Iterator[WebServer]:
    with serving(home.machine) as started:
        yield started


@pytest.fixture(scope="module")
def document(server: WebServer) -> Any:
    return json.loads(server.get("/api/openapi.json").text)


def close(schema: Any) -> Any:
    """Return the schema with every object closed, so that an answer has no field that is not described."""
    if isinstance(schema, list):
        return [close(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: close(one) for name, one in schema.items()}
    return {"additionalProperties": False, **inner} if "properties" in schema and "type" in schema else inner


def check(document: Any, path: str, answer: Any, status: str = "200", method: str = "get") -> None:
    found = document["paths"][path][method]["responses"][status]["content"]["application/json"]["schema"]
    schema = close({**found, "components": document["components"]})
    jsonschema.Draft202012Validator(schema).validate(answer)


def test_the_document_has_every_route_and_no_other(tmp_path: Path, document: Any) -> None:
    access = WebAccess(key=b"k", names=frozenset(), is_loopback=True, cookie="c")
    routes: Any = web_app(HomeView(Settings(home=tmp_path)), access).app.routes
    served = {
        (route.path, method)
        for route in routes
        for method in route.methods - {"HEAD"}
        if route.path.startswith("/api/") and route.path != "/api/openapi.json"
    }
    assert served == {(path, method.upper()) for path, kinds in document["paths"].items() for method in kinds}
    assert len(served) > 10
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
    assert names <= set(document["components"]["schemas"])


def test_every_real_answer_is_as_the_document_says(home: RealHome, server: WebServer, document: Any) -> None:
    for path in document["paths"]:
        runs = [home.run] if path.endswith(("status", "report", "transcript")) else [home.run, home.queue]
        runs = [home.queue] if path.endswith("queue") else runs
        for run in runs:
            entry = home.entries[0] if run == home.queue else "writes"
            asked = path.replace("{run}", run).replace("{task}", entry)
            for query in ("", f"?task={entry}") if path.endswith("actions") else ("",):
                said = server.get(f"{asked}{query}")
                assert (said.status, said.headers["content-type"]) == (200, "application/json"), (asked, said.text)
                check(document, path, json.loads(said.text))
                assert json.loads(said.text) or path.endswith(("actions", "hosts")), f"{asked} has something to show"


def test_the_commands_say_the_same(home: RealHome, server: WebServer) -> None:
    def seen(path: str) -> Any:
        return json.loads(server.get(f"/api{path}").text)

    assert seen("/attention") == home.machine.run("attention", "--json").answer
    status, said = seen(f"/runs/{home.run}/status"), home.machine.run("status", home.run, "--json").answer
    assert [one.pop("seconds") is not None for one in status["tasks"]] == [
        one.pop("seconds") is not None for one in said["tasks"]
    ]
    assert status == said
    journal = [one.event.model_dump(mode="json") for one in home.machine.journal(home.run)]
    events = seen(f"/runs/{home.run}/events")
    assert [one["event"] for one in events] == journal
    assert seen(f"/runs/{home.run}/events?after=3") == events[3:]
    bundle = home.machine.run("report", home.run, "--json").answer
    assert seen(f"/runs/{home.run}/report")["landings"] == bundle["landings"]


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/api/nothing", 404, "there is nothing at /api/nothing"),
        ("/api/runs/nope", 404, "there is no run 'nope'"),
        ("/api/runs/..%2f..%2fetc/status", 404, "there is nothing at"),
        ("/api/runs/RUN/queue", 404, "is a run and no queue; ask for its /status"),
        ("/api/runs/QUEUE/status", 404, "is a queue; ask for its /queue"),
        ("/api/runs/RUN/tasks/nope/diff", 404, "has no task 'nope'"),
        ("/api/runs/RUN/tasks/lands/transcript", 404, "its agent is 'command', which has no conversation"),
        ("/api/runs/RUN/events?after=x", 400, "'after' is no number; give one, such as after=1"),
    ],
)
def test_a_refusal_is_one_sentence(
    home: RealHome, server: WebServer, document: Any, path: str, status: int, sentence: str
) -> None:
    said = server.get(path.replace("RUN", home.run).replace("QUEUE", home.queue))
    assert said.status == status and sentence in json.loads(said.text)["error"], said
    check(document, "/api/attention", json.loads(said.text), "default")


def post(server: WebServer, run: str, body: Any, role: str = "operator", **headers: str) -> tuple[int, Any]:
    token = server.tokens.get(role, "")
    said = server.ask("POST", f"/api/runs/{run}/actions", body=json.dumps(body), token=token, **headers)
    return said.status, json.loads(said.text)


def test_only_an_operators_token_acts_and_no_cookie_does(home: RealHome, server: WebServer) -> None:
    body, before = {"do": "retry", "task": "fails"}, len(home.machine.journal(home.run))
    cookie = f"forgepool-{server.port}={server.cookie('operator')}"
    assert server.ask("GET", "/runs", cookie=cookie).status == 200
    assert server.ask("GET", "/api/runs", cookie=cookie).status == 401
    origin = f"http://127.0.0.1:{server.port}"
    assert post(server, home.run, body, "none", cookie=cookie, origin=origin)[0] == 401
    assert post(server, home.run, body, "viewer")[0] == 403
    assert post(server, home.run, body, "none", authorization="Bearer wrong")[0] == 401
    assert len(home.machine.journal(home.run)) == before


def test_an_action_does_what_the_page_does(home: RealHome, server: WebServer, document: Any) -> None:
    run = home.run
    listed = json.loads(server.get(f"/api/runs/{run}/actions?task=writes").text)
    seen = next(one["candidate"] for one in listed if one["do"] == "approve")
    approve = {"do": "approve", "task": "writes", "by": "Ada", "candidate": seen}
    for wrong, status, sentence in (
        ({**approve, "candidate": "0" * 40}, 409, "has another candidate by now"),
        ({**approve, "by": ""}, 409, "your name is missing"),
        ({**approve, "why": "x"}, 400, "the body has an unknown key 'why'"),
        ({"do": "destroy"}, 400, "'do' is wrong"),
        ({"do": "approve", "text": "x" * 70_000}, 413, "the body is longer than 65,536 bytes"),
    ):
        answered = post(server, run, wrong)
        assert answered[0] == status and sentence in answered[1]["error"], answered
    status, said = post(server, run, approve)
    check(document, "/api/runs/{run}/actions", said, method="post")
    assert status == 200 and said["said"].startswith("writes: Ada approved ")
    assert "task.approved" in [one.event.kind for one in home.machine.journal(run)]
