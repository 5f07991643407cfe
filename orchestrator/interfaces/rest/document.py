"""The OpenAPI document, made from the table of routes and the types of their answers."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from forgepool.orchestrator.interfaces.web.desk import WebDesk

if TYPE_CHECKING:
    from starlette.requests import Request

_REF = "#/components/schemas/{model}"
_JSON = "application/json"
Body = dict[str, Any]
"""A part of the document: JSON of no single type."""


@dataclass(frozen=True, kw_only=True)
class ApiError:
    """The answer to a request that is refused: one sentence says what is wrong."""

    error: str


@dataclass(frozen=True, kw_only=True)
class ActionDone:
    """The answer to an action: one sentence says what follows from it."""

    said: str


@dataclass(frozen=True)
class ApiRoute:
    """One path that answers `GET`."""

    path: str
    make: Callable[[WebDesk, "Request"], object]
    kind: Any
    """The type of its answer."""
    summary: str
    query: Mapping[str, str] = field(default_factory=dict)
    is_slow: bool = False
    """It may wait for a repository or Redis: only a few of these are made at once."""

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.kind)


def openapi(routes: Sequence[ApiRoute], action: type, words: str) -> Body:
    """Return the document."""
    found: dict[str, TypeAdapter[Any]] = {route.path: route.adapter for route in routes}
    found |= {one.__name__: TypeAdapter(one) for one in (ApiError, ActionDone)}
    schemas, kept = TypeAdapter.json_schemas(
        [*((name, "serialization", one) for name, one in found.items()), ("body", "validation", TypeAdapter(action))],
        ref_template=_REF,
    )
    parts = {name: schema for (name, _), schema in schemas.items()}
    paths: Body = {
        f"/api{route.path}": {"get": _operation(route.path, route.summary, parts[route.path], parts, route.query)}
        for route in routes
    }
    acts = _operation("", f"Do one thing about a run, a queue or a task. {words}", parts["ActionDone"], parts, {})
    paths["/api/runs/{run}/actions"]["post"] = {
        **acts,
        "parameters": _path_parameters("/runs/{run}"),
        "requestBody": {"required": True, "content": {_JSON: {"schema": parts["body"]}}},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Forgepool", "version": version("forgepool")},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": kept.get("$defs", {}),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(path: str, summary: str, answer: Body, parts: Mapping[str, Body], query: Mapping[str, str]) -> Body:
    asked = [
        {"name": name, "in": "query", "required": False, "description": words, "schema": {"type": "string"}}
        for name, words in query.items()
    ]
    return {
        "summary": summary,
        "parameters": [*_path_parameters(path), *asked],
        "responses": {
            "200": {"description": "It is answered.", "content": {_JSON: {"schema": answer}}},
            "default": {"description": "It is refused.", "content": {_JSON: {"schema": parts["ApiError"]}}},
        },
    }


def _path_parameters(path: str) -> list[Body]:
    names = re.findall(r"{(\w+)}", path)
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
