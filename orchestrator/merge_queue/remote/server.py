"""A queue by its HTTP API (`--server URL`): the same board, and the same requests."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from pydantic import JsonValue, TypeAdapter, ValidationError

from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.launch.prerequisites import CannotReach
from forgepool.orchestrator.reports.queue_board import Board, RequestReply
from forgepool.orchestrator.run.hub import CannotRun

_OBJECT: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])
_MOST_LISTED = 5000
_ROADS = {"cancel": ("DELETE", ""), "reclass": ("PUT", "/class")}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerQueue:
    """
    Raises, all of it:
        CannotRun: the API refuses what is asked.
        CannotReach: it does not answer, or with something that is not its own.
    """

    url: str
    token: str

    def board(self) -> Board:
        listed = self._asked("GET", f"/entries?limit={_MOST_LISTED}").get("entries", [])
        rows = [self._entry(one) for one in listed] if isinstance(listed, list) else []
        return self._read({**self._asked("GET", "/status"), "entries": rows})

    def entry(self, name: str) -> Board:
        """A board with this entry alone."""
        found = self._asked("GET", f"/entries/{quote(name, safe='')}")
        if found.get("state") == "submitted":
            raise CannotRun(f"'{name}': {found.get('why', '')}")
        return self._read({**self._asked("GET", "/status"), "entries": [self._entry(found)]})

    def ask(self, request: PersonRequest) -> RequestReply:
        method, more = _ROADS.get(request.do, ("POST", f"/{request.do}"))
        body: dict[str, JsonValue] = {"by": request.by or "somewhere"}
        if request.do == "reclass":
            body["class"] = request.text
        said = self._asked(method, f"/entries/{quote(request.task or '', safe='')}{more}", body)
        return RequestReply(done=False, said=str(said.get("said", "")))

    def _entry(self, row: JsonValue) -> JsonValue:
        if not isinstance(row, dict):
            return row
        stand = {**row, "klass": row.get("class", "normal")}
        return {
            "stand": stand,
            "explained": row.get("explained", ""),
            "reasons": row.get("reasons", []),
            "findings": row.get("findings", []),
        }

    def _read(self, said: Mapping[str, JsonValue]) -> Board:
        try:
            return Board.model_validate(said)
        except ValidationError as strange:
            raise CannotReach(f"{self.url} does not answer as a queue's API does; give its address") from strange

    def _asked(self, method: str, path: str, body: Mapping[str, JsonValue] | None = None) -> dict[str, JsonValue]:
        import httpx2

        headers = {"Authorization": f"Bearer {self.token}"}
        try:
            answer = httpx2.request(method, self.url.rstrip("/") + path, json=body, headers=headers, timeout=30.0)
            said = _OBJECT.validate_json(answer.content)
        except (httpx2.TransportError, httpx2.DecodingError, httpx2.InvalidURL) as lost:
            raise CannotReach(f"{self.url} does not answer: {lost or type(lost).__name__}; check the address") from lost
        except ValidationError as strange:
            raise CannotReach(f"{self.url} does not answer as a queue's API does; give its address") from strange
        if answer.is_success:
            return said
        why = str(said.get("said", f"it answers with status {answer.status_code}"))
        if answer.status_code >= 500:
            raise CannotReach(why)
        raise CannotRun(why)
