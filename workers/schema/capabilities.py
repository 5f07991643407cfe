"""
The words by which hosts tell what they can do, and orders what they need. Both are compared as plain text.

A host announces a set of such words. A need is met by any word of it. Beside them are the optional parts of an
installation: which packages each brings, and the command that installs a missing one.
"""

import re
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal, get_args

LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
"""The form of a label that a person gives a host."""


def check_label(text: str) -> str:
    """Return the text. Raises ValueError where it cannot be a label."""
    if not LABEL.fullmatch(text):
        raise ValueError(
            "is no label of a host; use letters, digits, '-', '_' and '.', as in 'forgepool worker --label gpu'"
        )
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One thing that an order needs of its host."""

    words: str
    """The need for people: `the label 'gpu'`."""
    any_of: frozenset[str]
    else_any_of: frozenset[str] = frozenset()
    """Words that will do where no host has any of the first."""

    def is_met(self, can: frozenset[str], *, offered: frozenset[str]) -> bool:
        """Tell whether a host that `can` meets it. `offered` is what all hosts together can."""
        wanted = self.any_of if self.any_of & offered else self.any_of | self.else_any_of
        return not wanted.isdisjoint(can)


def label(name: str) -> str:
    return f"label {name}"


def key(variable: str) -> str:
    """A variable that holds a key."""
    return f"key {variable}"


def model(name: str) -> str:
    """A model of the host's table, through an account with a key."""
    return f"model {name}"


def reviews_by(family: str) -> str:
    """A model of that family which is asked for reviews."""
    return f"reviews-by {family}"


def task_type(name: str) -> str:
    """A type of task with a route on which some model can be asked."""
    return f"type {name}"


def program(name: str) -> str:
    """A command-line agent."""
    return f"program {name}"


def extra(name: str) -> str:
    """An optional part of Forgepool."""
    return f"extra {name}"


def sandbox(level: str) -> str:
    return f"sandbox {level}"


def language_server(name: str) -> str:
    return f"language-server {name}"


Extra = Literal["acp", "http", "lsp", "mcp", "otel", "watch"]
EXTRAS: tuple[Extra, ...] = get_args(Extra)
"""The optional parts of an installation."""
_PACKAGES: dict[Extra, tuple[str, ...]] = {
    "acp": ("acp",),
    "http": ("starlette", "uvicorn", "jinja2", "prometheus_client"),
    "lsp": ("pygls", "lsprotocol"),
    "mcp": ("mcp", "jsonschema"),
    "otel": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
    "watch": ("textual",),
}


def missing_extra(extra: Extra) -> str | None:
    """Return the sentence that says which command installs the part; None where it is installed."""
    absent = [package for package in _PACKAGES[extra] if not _is_here(package)]
    if not absent:
        return None
    names = " and ".join(absent)
    return f"no {names} here; pip install 'forgepool[{extra}]' installs it (from a clone: pip install '.[{extra}]')"


def _is_here(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # A package around it is missing.
        return False
