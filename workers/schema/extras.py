"""The optional parts of an installation: which packages each brings, and what to type where one is missing."""

from importlib.util import find_spec
from typing import Literal, get_args

Extra = Literal["http", "lsp", "mcp", "watch"]
EXTRAS: tuple[Extra, ...] = get_args(Extra)
_PACKAGES: dict[Extra, tuple[str, ...]] = {
    "http": ("starlette", "uvicorn", "jinja2"),
    "lsp": ("pygls", "lsprotocol"),
    "mcp": ("mcp", "jsonschema"),
    "watch": ("textual",),
}


def missing_extra(extra: Extra) -> str | None:
    """Return the sentence that says which command installs the part; None where it is installed."""
    absent = [package for package in _PACKAGES[extra] if find_spec(package) is None]
    if not absent:
        return None
    names = " and ".join(absent)
    return f"no {names} here; pip install 'forgepool[{extra}]' installs it (from a clone: pip install '.[{extra}]')"
