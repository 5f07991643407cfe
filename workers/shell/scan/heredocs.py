"""Heredocs: their delimiters and their texts, as bash's lexer takes them."""

import re
from typing import Protocol

from forgepool.workers.shell.scan.refusal import refuse
from forgepool.workers.shell.scan.tokens import HeredocBody, Parts, WordPiece

_DELIMITER = re.compile(
    rb"""[ \t]*(?:'(?P<single>[\w.!-]+)'|"(?P<double>[\w.!-]+)"|\\?(?P<bare>[\w.!-]+))(?=[ \t\n;&|<>)]|$)"""
)


class HeredocReader(Protocol):
    source: bytes
    at: int

    def heredoc(self, end: int) -> Parts: ...


def read_delimiter(reader: HeredocReader, *, tabs_stripped: bool) -> HeredocBody:
    """Past the word after `<<`."""
    found = _DELIMITER.match(reader.source, reader.at)
    if found is None:
        refuse("a heredoc's delimiter is not a plain word", "write <<'EOF', its text, and a line with EOF alone")
    word = found["single"] or found["double"] or found["bare"]
    quoted = found["bare"] is None or b"\\" in found[0]
    reader.at = found.end()
    return HeredocBody(delimiter=word, quoted=quoted, tabs_stripped=tabs_stripped)


def read_bodies(reader: HeredocReader, bodies: list[HeredocBody]) -> None:
    """Past the texts that begin here, one after the other."""
    for body in bodies:
        body.start = reader.at
        body.end, after = _find_end(reader.source, body)
        if body.quoted:
            body.parts = (WordPiece(text=reader.source[body.start : body.end].decode(), quoted=True),)
        else:
            body.parts = reader.heredoc(body.end)
        if body.tabs_stripped:
            body.parts = _strip_tabs(body.parts)
        reader.at = after


def _find_end(source: bytes, body: HeredocBody) -> tuple[int, int]:
    """Where its text ends and where the line after its delimiter begins."""
    tabs = rb"\t*" if body.tabs_stripped else b""
    line = re.compile(rb"^" + tabs + re.escape(body.delimiter) + rb"(?:\n|\Z)", re.MULTILINE)
    found = line.search(source, body.start)
    if found is None:
        refuse(
            f"the heredoc is not ended by a line that is exactly {body.delimiter.decode()}",
            f"end it by a line with {body.delimiter.decode()} alone, no blanks around it",
        )
    return found.start(), found.end()


def _strip_tabs(parts: Parts) -> Parts:
    """A static text without the tabs its lines begin with; one with holes is not known anyway."""
    if len(parts) == 1 and isinstance(parts[0], WordPiece):
        return (WordPiece(text=re.sub(r"^\t+", "", parts[0].text, flags=re.MULTILINE), quoted=True),)
    return parts
