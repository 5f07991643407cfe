"""
Bash's lexer: where its tokens begin and end, which the grammar's leaves do not tell for sure.

Strict: it knows bash's own rules for blanks, quotes, comments, operators and heredocs, and refuses what would need more
than that. It reads every byte once. What the tokens mean together is `syntax`'s affair; words are in `spelling`.
"""

import re
from typing import Literal, Protocol

from forgepool.workers.shell.language.refusal import refuse
from forgepool.workers.shell.language.spelling import Speller
from forgepool.workers.shell.language.syntax import REDIRECTING, HeredocBody, Parts, Region, Token, WordPiece

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


_OPERATOR = re.compile(rb";;&|&>>|<<<|<<-|&&|\|\||;;|;&|\|&|&>|>>|>\||[<>]&-|>&|<&|<>|<<|[;&|()<>]")
_BLANKS = re.compile(rb"(?:[ \t]|\\\n)+")
_COMMENT = re.compile(rb"#[^\n]*")
_SETS_MORE = re.compile(r"[A-Za-z_]\w*(?:\[|\+=|=\()", re.ASCII)
"""`a[1]=2`, `a+=2` and `a=(2)`: commands of that name to a plain `sh`."""
_JOINING = frozenset([b";", b"&", b"|", b"<", b">", b"("])
"""What would be another operator with the first character of a continued line."""
_NUMBER = re.compile(rb"[0-9]+(?=[<>])")

_BASH_ALONE = frozenset(["&>", "&>>", "<<<", "|&", ";&", ";;&"])
_COMMAND_FOLLOWS = frozenset(["if", "then", "elif", "else", "do", "while", "until", "!", "{", "time"])


class Scanner(Speller):
    """Reads one script; `region()` once, and what it found is in `commands` and `evaluated` too."""

    def __init__(self, source: bytes) -> None:
        super().__init__(source)
        self._pending: list[HeredocBody] = []

    def read(self) -> Region:
        """
        The whole script.

        Raises:
            Refusal: it cannot be told where its tokens begin and end.
        """
        return self.region(closing=False)

    def region(self, *, closing: bool) -> Region:
        with self.deeper():
            found = Region(start=self.at)
            _Tokens(self, found, closing=closing).fill()
            found.end = self.at
            return found

    def expect_line(self, body: HeredocBody) -> None:
        self._pending.append(body)

    def newline(self) -> None:
        """Past a newline that is a token, and the heredocs that begin after it."""
        self.at += 1
        pending, self._pending = self._pending, []
        read_bodies(self, pending)

    def newline_inside(self) -> None:
        if self._pending:
            refuse(
                "a line ends inside of quotes or brackets between a heredoc's operator and its text",
                "end the line of `<<` outside of quotes and brackets",
            )

    @property
    def heredocs_awaited(self) -> int:
        return len(self._pending)


class _Tokens:
    """Fills one region."""

    def __init__(self, scanner: Scanner, region: Region, *, closing: bool) -> None:
        self._scanner = scanner
        self._region = region
        self._closing = closing
        self._open = 0
        self._begins = True
        """A reserved word would be one here."""
        self._outer = scanner.heredocs_awaited

    def fill(self) -> None:
        while not self._ended():
            self._next()
        if self._scanner.heredocs_awaited > self._outer:
            refuse("a heredoc's text is missing", "end it by a line that is exactly its delimiter")

    def _ended(self) -> bool:
        scanner = self._scanner
        if (blanks := _BLANKS.match(scanner.source, scanner.at)) is not None:
            if b"\n" in blanks[0]:
                scanner.newline_inside()
            if blanks[0].startswith(b"\\") and scanner.source[scanner.at - 1 : scanner.at] in _JOINING:
                refuse("a line is continued right behind an operator", "put a blank before the backslash")
            scanner.at = blanks.end()
        if scanner.at < len(scanner.source):
            return self._closing and not self._open and scanner.peek() == b")"
        if self._closing:
            refuse("a bracket is never closed", "close every bracket")
        return True

    def _next(self) -> None:
        scanner = self._scanner
        character = scanner.peek()
        if character == b"#":
            comment = _COMMENT.match(scanner.source, scanner.at)
            assert comment is not None
            scanner.at = comment.end()
        elif character == b"\n":
            self._newline()
        elif (number := _NUMBER.match(scanner.source, scanner.at)) is not None:
            self._add("number", number.end())
        elif self._begins and scanner.source.startswith(b"((", scanner.at):
            self._sum()
        elif character in b"<>" and scanner.source[scanner.at + 1 : scanner.at + 2] == b"(":
            self._word()
        elif (operator := _OPERATOR.match(scanner.source, scanner.at)) is not None:
            self._operator(operator)
        else:
            self._word()

    def _newline(self) -> None:
        if self._closing and self._outer:
            self._scanner.newline_inside()
        start = self._scanner.at
        self._scanner.newline()
        self._region.tokens.append(Token(kind="newline", start=start, end=start + 1, raw="\n"))
        self._begins = True

    def _operator(self, operator: re.Match[bytes]) -> None:
        raw = operator[0].decode()
        body = None
        start = self._scanner.at
        self._scanner.at = operator.end()
        if raw in ("<<", "<<-"):
            body = read_delimiter(self._scanner, tabs_stripped=raw == "<<-")
            self._scanner.expect_line(body)
        if raw in _BASH_ALONE:
            self._scanner.bash_only = raw
        self._region.tokens.append(Token(kind="operator", start=start, end=operator.end(), raw=raw, body=body))
        self._open += (raw == "(") - (raw == ")")
        self._begins = raw not in REDIRECTING

    def _sum(self) -> None:
        self._scanner.bash_only = "((...))"
        start = self._scanner.at
        self._scanner.at += 2
        self._scanner.arithmetic()
        self._add("sum", self._scanner.at, start=start)
        self._begins = False

    def _word(self) -> None:
        start = self._scanner.at
        parts = self._scanner.word()
        raw = self._add("word", self._scanner.at, start=start, parts=parts)
        if raw == "function" or _SETS_MORE.match(raw) or raw.startswith(("<(", ">(")):
            self._scanner.bash_only = raw
        if raw == "[[" and self._begins:
            self._region.tokens.pop()
            self._test(start)
        after_function = len(self._region.tokens) > 1 and self._region.tokens[-2].raw == "function"
        follows = raw in _COMMAND_FOLLOWS or (raw == "for" and self._scanner.for_sum_follows())
        self._begins = (self._begins and follows) or after_function

    def _test(self, start: int) -> None:
        operands: list[Token] = []
        self._scanner.bash_only = "[[ ]]"
        while (operand := self._operand(operands)) is not None:
            operands.append(operand)
        self._add("test", self._scanner.at, start=start, operands=tuple(operands))

    def _operand(self, before: list[Token]) -> Token | None:
        """The next word or operator within `[[ ]]`; None once past its end."""
        scanner = self._scanner
        while scanner.at < len(scanner.source) and scanner.peek() in b" \t\n":
            if scanner.peek() == b"\n":
                scanner.newline_inside()
            scanner.at += 1
        start = scanner.at
        operator = re.compile(rb"&&|\|\||[()<>]").match(scanner.source, start)
        after_match = bool(before) and before[-1].raw == "=~"
        if operator is not None and not after_match:
            if operator[0] in (b"<", b">") and scanner.source[start + 1 : start + 2] == b"(":
                refuse(
                    "a process is substituted within `[[ ]]`", "put the command's output into a file or variable first"
                )
            scanner.at = operator.end()
            return Token(kind="operator", start=start, end=scanner.at, raw=operator[0].decode())
        parts = scanner.pattern() if after_match else scanner.word()
        if scanner.at == start:
            refuse("a `[[` is never closed", "close it by ` ]]`")
        raw = scanner.source[start : scanner.at].decode()
        return (
            None
            if raw == "]]" and not after_match
            else Token(kind="word", start=start, end=scanner.at, raw=raw, parts=parts)
        )

    def _add(
        self,
        kind: Literal["word", "operator", "number", "newline", "test", "sum"],
        end: int,
        *,
        start: int | None = None,
        parts: Parts = (),
        operands: tuple[Token, ...] = (),
    ) -> str:
        start = self._scanner.at if start is None else start
        raw = self._scanner.source[start:end].decode()
        self._region.tokens.append(Token(kind=kind, start=start, end=end, raw=raw, parts=parts, operands=operands))
        self._scanner.at = end
        return raw
