"""
A local HTTP server that speaks the wire formats of both forges, as far as the queue uses them.

It has lists in pages, statuses, comments, approvals and members, written from the documentation of the forges. No real
forge was asked.

One port serves both: `/repos` and `/orgs` (GitHub), `/api/v4` (GitLab). Answers in `faults` are given first, one for
each request; None means the usual answer. `seen` holds all requests, and `lost` those that neither forge would
understand.
"""

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from vendors.serving import Serving

TOKEN = "token-of-the-bot"
REPOSITORY = "octo/shop"
PROJECT = "group/sub/shop"

Body = dict[str, Any]


@dataclass(frozen=True)
class Fault:
    """An answer in place of the usual one. Status 0 closes the connection, before or after acting on the request."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    acted: bool = False


@dataclass(frozen=True)
class Seen:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Body


def pull(number: int, head: str = "a" * 40, **parts: Any) -> Body:
    """Return a pull request as GitHub lists it, with some fields of the single view."""
    user = {"login": parts.pop("author", "ada"), "id": 1, "type": "User"}
    labels = [{"id": 7, "name": name, "color": "fff"} for name in parts.pop("labels", ["forgepool"])]
    return {
        "number": number,
        "state": "open",
        "title": f"Change {number}",
        "html_url": f"https://forge.example/octo/shop/pull/{number}",
        "body": None,
        "draft": False,
        "user": user,
        "labels": labels,
        "head": {"ref": "topic", "sha": head, "repo": {"id": 1}},
        "base": {"ref": parts.pop("target", "main"), "sha": "b" * 40, "repo": {"id": 1}},
        "mergeable_state": "clean",
    } | parts


def merge_request(iid: int, head: str | None = "a" * 40, **parts: Any) -> Body:
    """Return a merge request as GitLab lists it."""
    return {
        "id": 9000 + iid,
        "iid": iid,
        "state": "opened",
        "title": f"Change {iid}",
        "web_url": f"https://forge.example/group/sub/shop/-/merge_requests/{iid}",
        "description": "",
        "draft": False,
        "sha": head,
        "author": {"id": 1, "username": parts.pop("author", "ada")},
        "labels": parts.pop("labels", ["forgepool"]),
        "target_branch": parts.pop("target", "main"),
        "source_branch": "topic",
        "source_project_id": 1,
        "target_project_id": 1,
        "detailed_merge_status": "mergeable",
    } | parts


class ForgeServer(Serving):
    """Serves inside its `with` block; the test puts the data into it."""

    def __init__(self) -> None:
        self.faults: list[Fault | None] = []
        self.seen: list[Seen] = []
        self.lost: list[str] = []
        self.pulls: dict[int, Body] = {}
        self.requests: dict[int, Body] = {}
        self.reviews: dict[int, list[Body]] = {}
        self.approvals: dict[int, list[str]] = {}
        self.teams: dict[str, list[str]] = {}
        self.groups: dict[str, list[tuple[str, int]]] = {}
        """Names and levels of members; those of the project itself under the project's path."""
        self.statuses: dict[str, dict[str, str]] = {}
        """GitLab's statuses, by commit and name."""
        self.overlooked: set[int] = set()
        """Changes that lists omit, as when another change is closed between two pages."""
        self.per_page: int | None = None
        """A smaller page than requested, which forges may return."""
        self.elsewhere: str | None = None
        """Address given for the next page."""
        http = _Server(("127.0.0.1", 0), _Asked)
        http.forge = self
        super().__init__(http)

    def sent(self, method: str = "POST") -> list[Body]:
        return [one.body for one in self.seen if one.method == method]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    forge: ForgeServer
    lock = threading.Lock()


class _Asked(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing, because requests are recorded."""

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_PATCH(self) -> None:
        self._answer()

    def _answer(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        headers = {name.lower(): value for name, value in self.headers.items()}
        seen = Seen(self.command, url.path, query, headers, json.loads(raw) if raw else {})
        with self.server.lock:
            self.server.forge.seen.append(seen)
            fault = self.server.forge.faults.pop(0) if self.server.forge.faults else None
            if fault is None or fault.acted:
                answer = self._act(seen)
        if fault is None:
            return self._say(*answer)
        if fault.status == 0:
            self.close_connection = True
            self.connection.close()
            return None
        return self._say(fault.status, fault.body, fault.headers)

    def _act(self, seen: Seen) -> tuple[int, Any, dict[str, str]]:
        if seen.path.startswith("/api/v4/"):
            if seen.headers.get("private-token") != TOKEN:
                return 401, {"message": "401 Unauthorized"}, {}
            return self._gitlab(seen, seen.path.removeprefix("/api/v4/").split("/"))
        if seen.headers.get("authorization") != f"Bearer {TOKEN}":
            return 401, {"message": "Bad credentials", "documentation_url": "https://forge.example/rest"}, {}
        return self._github(seen, seen.path.strip("/").split("/"))

    def _github(self, seen: Seen, parts: list[str]) -> tuple[int, Any, dict[str, str]]:
        forge = self.server.forge
        match seen.method, parts:
            case "GET", ["repos", "octo", "shop", "pulls"]:
                return self._page(
                    seen,
                    [
                        one
                        for one in forge.pulls.values()
                        if one["state"] == "open" and one["number"] not in forge.overlooked
                    ],
                )
            case "GET", ["repos", "octo", "shop", "pulls", number] if int(number) in forge.pulls:
                return 200, forge.pulls[int(number)], {}
            case "POST", ["repos", "octo", "shop", "pulls"]:
                said = {name: seen.body[name] for name in ("title", "body")}
                made = pull(len(forge.pulls) + 1, target=seen.body["base"], labels=[], **said)
                made["head"]["ref"] = seen.body["head"]
                forge.pulls[made["number"]] = made
                return 201, made, {}
            case "PATCH", ["repos", "octo", "shop", "pulls", number]:
                forge.pulls[int(number)].update(seen.body)
                return 200, forge.pulls[int(number)], {}
            case "GET", ["repos", "octo", "shop", "pulls", number, "reviews"]:
                return self._page(seen, forge.reviews.get(int(number), []))
            case "POST", ["repos", "octo", "shop", "issues", _, "comments"]:
                return 201, {"id": 1, "body": seen.body["body"]}, {}
            case "POST", ["repos", "octo", "shop", "statuses", _]:
                return self._github_status(seen)
            case "GET", ["orgs", org, "teams", team, "members"] if f"@{org}/{team}" in forge.teams:
                return self._page(seen, [{"login": name, "id": 1} for name in forge.teams[f"@{org}/{team}"]])
        return self._lost(seen, {"message": "Not Found", "documentation_url": "https://forge.example/rest"})

    def _github_status(self, seen: Seen) -> tuple[int, Any, dict[str, str]]:
        if seen.body["state"] not in ("error", "failure", "pending", "success") or len(seen.body["description"]) > 140:
            wrong = {"resource": "Status", "code": "custom", "field": "description", "message": "is too long"}
            return 422, {"message": "Validation Failed", "errors": [wrong]}, {}
        return 201, {"id": 1, **seen.body}, {}

    def _gitlab(self, seen: Seen, parts: list[str]) -> tuple[int, Any, dict[str, str]]:
        forge = self.server.forge
        match seen.method, [unquote(part) for part in parts]:
            case "GET", ["projects", "group/sub/shop", "merge_requests"]:
                wanted = seen.query.get("labels")
                opened = [one for one in forge.requests.values() if one["state"] == "opened"]
                found = [one for one in opened if wanted is None or wanted in one["labels"]]
                return self._page(seen, [one for one in found if one["iid"] not in forge.overlooked])
            case "GET", ["projects", "group/sub/shop", "merge_requests", iid] if int(iid) in forge.requests:
                return 200, forge.requests[int(iid)], {}
            case "POST", ["projects", "group/sub/shop", "merge_requests"]:
                made = merge_request(len(forge.requests) + 1, target=seen.body["target_branch"], labels=[])
                forge.requests[made["iid"]] = made | seen.body
                return 201, forge.requests[made["iid"]], {}
            case "PUT", ["projects", "group/sub/shop", "merge_requests", iid]:
                closed = seen.body.get("state_event") == "close"
                forge.requests[int(iid)].update({"state": "closed"} if closed else seen.body)
                return 200, forge.requests[int(iid)], {}
            case "GET", ["projects", "group/sub/shop", "merge_requests", iid, "approvals"]:
                names = forge.approvals.get(int(iid), [])
                return 200, {"approved": True, "approved_by": [{"user": {"username": name}} for name in names]}, {}
            case "POST", ["projects", "group/sub/shop", "merge_requests", _, "notes"]:
                return 201, {"id": 1, "body": seen.body["body"]}, {}
            case "POST", ["projects", "group/sub/shop", "statuses", commit]:
                return self._gitlab_status(seen, commit)
            case "GET", ["projects", "group/sub/shop", "repository", "commits", commit, "statuses"]:
                known = forge.statuses.get(commit, {})
                return self._page(seen, [{"name": name, "status": state} for name, state in known.items()])
            case "GET", [_, owner, "members"] if owner in forge.groups:
                members = [{"username": name, "access_level": level} for name, level in forge.groups[owner]]
                return self._page(seen, members)
        return self._lost(seen, {"message": "404 Not found"})

    def _gitlab_status(self, seen: Seen, commit: str) -> tuple[int, Any, dict[str, str]]:
        known = self.server.forge.statuses.setdefault(commit, {})
        name, state = seen.body["name"], seen.body["state"]
        if known.get(name) == state:
            return (
                400,
                {"message": {"status": [f"Cannot transition status via :run from :{state} (Reason(s): ...)"]}},
                {},
            )
        known[name] = state
        return 201, {"id": 1, "status": state, "name": name}, {}

    def _page(self, seen: Seen, whole: list[Any]) -> tuple[int, Any, dict[str, str]]:
        """Return the paging headers of both forges. GitLab's proxies are known to drop the first."""
        size = self.server.forge.per_page or int(seen.query.get("per_page", "30"))
        page = int(seen.query.get("page", "1"))
        part = whole[(page - 1) * size : page * size]
        if page * size >= len(whole):
            return 200, part, {"x-next-page": ""} if seen.path.startswith("/api/v4/") else {}
        if seen.path.startswith("/api/v4/"):
            return 200, part, {"x-next-page": str(page + 1), "x-page": str(page)}
        host = self.server.forge.elsewhere or self.server.forge.url
        query = "&".join(f"{name}={value}" for name, value in {**seen.query, "page": page + 1}.items())
        return 200, part, {"link": f'<{host}{seen.path}?{query}>; rel="next", <{host}{seen.path}>; rel="first"'}

    def _lost(self, seen: Seen, body: Body) -> tuple[int, Any, dict[str, str]]:
        self.server.forge.lost.append(f"{seen.method} {seen.path}")
        return 404, body, {}

    def _say(self, status: int, body: Any, headers: dict[str, str]) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
