"""The optional parts of an installation: which packages each brings, and what to type where one is missing."""

from importlib.util import find_spec
from typing import Literal, get_args

Extra = Literal["acp", "http", "lsp", "mcp", "otel", "watch"]
EXTRAS: tuple[Extra, ...] = get_args(Extra)
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
