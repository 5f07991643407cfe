"""
What language servers tell, in our own words. Paths are real paths; lines and columns count from 0, as theirs do.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from forgepool.workers.tools.lsp.places import TextChange


class NoAnswer(Exception):
    """A question that got no answer; the sentence is for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """A definition."""

    name: str
    kind: str
    container: str
    """The class, module or namespace it is in; empty when it is not told."""
    path: Path
    line: int


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    path: Path
    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """An error or a warning."""

    path: Path
    line: int
    column: int
    severity: Literal["error", "warning"]
    message: str


Edits = Mapping[Path, tuple[TextChange, ...]]
"""What is to be changed in which file."""
