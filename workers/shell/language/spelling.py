"""
How bash's lexer takes a word apart: quotes, escapes, `$` in all its forms.

What is refused here bash would read in a way that depends on more than the text at hand, or that the grammar is known
to read otherwise.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from forgepool.workers.shell.language.refusal import (
    check_depth,
    check_number,
    refuse,
    refuse_backticks,
    refuse_continuation,
    refuse_indirection,
    refuse_open_quote,
)
from forgepool.workers.shell.language.syntax import Elements, Hole, Part, Parts, Region, WordPiece
from forgepool.workers.shell.language.words import decode_ansi, names_in

_ENDS_WORD = b" \t\n;&|<>()"
_PLAIN = re.compile(rb"[^ \t\n;&|<>()'\"\\$`]+")
_PLAIN_QUOTED = re.compile(rb'[^"\\$`\n]+')
_PLAIN_HEREDOC = re.compile(rb"[^\\$`]+")
_PLAIN_DEFAULT = re.compile(rb"[<>]|[^'\"\\$`}\n<>]+")
_PLAIN_PATTERN = re.compile(rb"[^ \t\n;&<>'\"\\$`]+")
_SINGLE = re.compile(rb"'([^']*)'")
_ANSI = re.compile(rb"'((?:[^'\\]|\\[\x00-\xff])*)'")
_NAME = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_PARAMETER = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!_-]")
_SPECIAL = re.compile(rb"[0-9@*#?$!-]")
_NUMERIC = frozenset(["#", "?", "$", "!"])
_OPERATION = re.compile(rb":?[-=?+]|##?|%%?|/[/#%]?|\^\^?|,,?")
_JOINS_TEXT = re.compile(rb"[\w \t\n.,:;!?\x80-\xff-]")
"""What may stand before a continued line in double quotes: `$` would join with what follows."""
_ARRAY = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_SUBSCRIPT = re.compile(rb"\[([^][]*)\]")
_FOR_SUM = re.compile(rb"[ \t]*\(\(")


class Speller(ABC):
    """Reads words at `at`; the scanner, which reads what stands between brackets, builds on it."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.at = 0
        self.evaluated: list[str] = []
        """Variables whose values arithmetic somewhere in the script evaluates."""
        self.sums: list[str] = []
        self.defaulted: list[str] = []
        """Variables that `${x:=...}` sets."""
        self.regions: list[Region] = []
        """All those of substitutions."""
        self.bash_only = ""
        """Something in it that a plain `sh` reads otherwise."""
        self._depth = 0

    @abstractmethod
    def region(self, *, closing: bool) -> Region: ...

    @abstractmethod
    def newline_inside(self) -> None: ...

    @contextmanager
    def deeper(self) -> Iterator[None]:
        self._depth += 1
        check_depth(self._depth)
        yield
        self._depth -= 1

    def peek(self) -> bytes:
        return self.source[self.at : self.at + 1]

    def for_sum_follows(self) -> bool:
        return _FOR_SUM.match(self.source, self.at) is not None

    # -- words

    def word(self) -> Parts:
        """Up to the next blank or metacharacter outside of quotes; a `<(...)` is a word of its own."""
        if self.peek() in (b"<", b">"):
            return (self._process(),)
        parts: list[Part] = []
        while (character := self.peek()) and character not in _ENDS_WORD:
            parts.extend(self._unquoted(character, _PLAIN))
        if character in (b"<", b">") and self.source[self.at + 1 : self.at + 2] == b"(":
            refuse("a process is substituted in the middle of a word", "let `<(...)` be a word of its own")
        if character == b"(" and _is_array(parts):
            parts.append(self._elements())
            if self.peek() and self.peek() not in b" \t\n;&|)":
                refuse("a word goes on behind an array's bracket", "write name=(one two), and a blank or line end")
        return tuple(parts)

    def pattern(self) -> Parts:
        """The regular expression after `=~`, which may hold brackets and bars."""
        parts: list[Part] = []
        opened = 0
        while (character := self.peek()) and character not in b" \t\n;&<>":
            begin = self.at
            parts.extend(self._unquoted(character, _PLAIN_PATTERN))
            opened += self.source.count(b"(", begin, self.at) - self.source.count(b")", begin, self.at)
        if opened:
            refuse(
                "a regular expression's brackets do not match", "put the expression into a variable, and that after =~"
            )
        return tuple(parts)

    def _unquoted(self, character: bytes, plain: re.Pattern[bytes]) -> tuple[Part, ...]:
        match character:
            case b"'":
                return (self._single(),)
            case b'"':
                return self._double()
            case b"\\":
                return (self._escaped(),)
            case b"$":
                return (self._dollar(quoted=False),)
            case b"`":
                refuse_backticks()
        return (self._run(plain, len(self.source), quoted=False),)

    def _run(self, plain: re.Pattern[bytes], end: int, *, quoted: bool) -> WordPiece:
        run = plain.match(self.source, self.at, end)
        if run is None:
            refuse("a character stands where none was expected", "write plain commands")
        self.at = run.end()
        return WordPiece(text=run[0].decode(), quoted=quoted)

    def _single(self) -> WordPiece:
        found = _SINGLE.match(self.source, self.at)
        if found is None:
            refuse_open_quote()
        self._pass(found.end())
        return WordPiece(text=found[1].decode(), quoted=True)

    def _escaped(self) -> WordPiece:
        following = self.source[self.at + 1 : self.at + 2]
        if following in (b"\n", b""):
            refuse_continuation()
        end = self.at + 2
        while end < len(self.source) and self.source[end] & 0xC0 == 0x80:
            end += 1
        text = self.source[self.at + 1 : end].decode()
        self.at = end
        return WordPiece(text=text, quoted=True)

    # -- double quotes, heredocs

    def _double(self) -> tuple[Part, ...]:
        parts: list[Part] = [WordPiece(text="", quoted=True)]
        self.at += 1
        while (character := self.peek()) != b'"':
            if not character:
                refuse_open_quote()
            parts.extend(self._quoted(character, _PLAIN_QUOTED, b'$`"\\'))
        self.at += 1
        return tuple(parts)

    def heredoc(self, end: int) -> Parts:
        """The text of an unquoted heredoc that ends at `end`."""
        parts: list[Part] = [WordPiece(text="", quoted=True)]
        while self.at < end:
            parts.extend(self._quoted(self.peek(), _PLAIN_HEREDOC, b"$`\\", end=end))
        if self.at != end:
            refuse("a substitution in a heredoc goes on behind its end", "quote the delimiter: <<'EOF'")
        return tuple(parts)

    def _quoted(
        self, character: bytes, plain: re.Pattern[bytes], escapable: bytes, *, end: int | None = None
    ) -> tuple[Part, ...]:
        match character:
            case b"\\":
                return self._escaped_in_quotes(escapable)
            case b"$":
                return (self._dollar(quoted=True),)
            case b"`":
                refuse_backticks()
            case b"\n":
                self._pass(self.at + 1)
                return (WordPiece(text="\n", quoted=True),)
        return (self._run(plain, len(self.source) if end is None else end, quoted=True),)

    def _escaped_in_quotes(self, escapable: bytes) -> tuple[Part, ...]:
        following = self.source[self.at + 1 : self.at + 2]
        if following == b"\n":
            if b'"' not in escapable:
                refuse("a line of a heredoc is continued by a backslash", "quote the delimiter: <<'EOF'")
            if not _JOINS_TEXT.search(self.source, max(0, self.at - 1), self.at):
                refuse_continuation()
            self._pass(self.at + 2)
            return ()
        if following and following in escapable:
            self.at += 2
            return (WordPiece(text=following.decode(), quoted=True),)
        self.at += 1
        return (WordPiece(text="\\", quoted=True),)

    # -- dollars

    def _dollar(self, *, quoted: bool) -> Part:
        rest = self.source[self.at + 1 : self.at + 3]
        if rest == b"((":
            return self._sum(quoted=quoted)
        match rest[:1]:
            case b"(":
                return self._command(quoted=quoted)
            case b"{":
                return self._parameter(quoted=quoted)
            case b"[":
                refuse("`$[...]` is arithmetic of old", "write $((...))")
            case b"'" if not quoted:
                return self._ansi()
            case b'"' if not quoted:
                refuse('`$"..."` is translated by the locale', 'write "..."')
        return self._variable(quoted=quoted)

    def _variable(self, *, quoted: bool) -> Part:
        start = self.at
        found = _NAME.match(self.source, start + 1) or _SPECIAL.match(self.source, start + 1)
        if found is None:
            self.at += 1
            return WordPiece(text="$", quoted=True)
        self.at = found.end()
        name = found[0].decode()
        return Hole(
            kind="number" if name in _NUMERIC else "variable",
            quoted=quoted,
            start=start,
            end=self.at,
            name=name,
            every=name == "@",
        )

    def _ansi(self) -> WordPiece:
        self.bash_only = "$'...'"
        found = _ANSI.match(self.source, self.at + 1)
        if found is None:
            refuse_open_quote()
        self._pass(found.end())
        return WordPiece(text=decode_ansi(found[1].decode()), quoted=True)

    def _sum(self, *, quoted: bool) -> Hole:
        start = self.at
        self.at += 3
        self.arithmetic()
        return Hole(kind="number", quoted=quoted, start=start, end=self.at)

    def arithmetic(self) -> None:
        """Past the `))` that ends the arithmetic begun here."""
        start, opened = self.at, 0
        while self.at < len(self.source):
            character = self.peek()
            if character == b")" and not opened:
                break
            opened += (character == b"(") - (character == b")")
            if character == b"\n":
                self.newline_inside()
            self.at += 1
        if self.source[self.at : self.at + 2] != b"))":
            refuse("`((` is not closed by `))`", "put a blank between two brackets that open subshells")
        self._evaluate(self.source[start : self.at].decode())
        self.at += 2

    def _evaluate(self, text: str) -> None:
        self.evaluated.extend(names_in(text))
        self.sums.append(text.strip())

    def _command(self, *, quoted: bool) -> Hole:
        start = self.at
        self.at += 2
        return self._substitution("command", start, quoted=quoted)

    def _process(self) -> Hole:
        start = self.at
        self.at += 2
        hole = self._substitution("process", start, quoted=False)
        if self.peek() and self.peek() not in _ENDS_WORD:
            refuse("a process is substituted in the middle of a word", "let `<(...)` be a word of its own")
        return hole

    def _substitution(self, kind: Literal["command", "process"], start: int, *, quoted: bool) -> Hole:
        region = self.region(closing=True)
        self.regions.append(region)
        check_number(len(self.regions))
        self.at += 1
        return Hole(kind=kind, quoted=quoted, start=start, end=self.at, region=region)

    # -- ${...}

    def _parameter(self, *, quoted: bool) -> Hole:
        start = self.at
        self.at += 2
        with self.deeper():
            numeric, indirect = self._prefix()
            name = self._parameter_name()
            whole = self._subscript()
            if indirect and not whole:
                refuse_indirection()
            inner = self._operation(name, quoted=quoted)
        if self.peek() != b"}":
            refuse("a `${...}` has more in it than a name and one plain operation", "write ${name} or ${name:-default}")
        self.at += 1
        number = numeric or (name in _NUMERIC and not inner)
        return Hole(
            kind="number" if number else "variable",
            quoted=quoted,
            start=start,
            end=self.at,
            name=name,
            every=whole or name == "@",
            inner=inner,
        )

    def _prefix(self) -> tuple[bool, bool]:
        """Whether it is a length, whether its keys are asked for."""
        if self.peek() == b"#" and self.source[self.at + 1 : self.at + 2] not in (b"}", b"#", b"%", b":", b"-"):
            self.at += 1
            return True, False
        if self.peek() == b"!" and self.source[self.at + 1 : self.at + 2] != b"}":
            self.at += 1
            return False, True
        return False, False

    def _parameter_name(self) -> str:
        found = _PARAMETER.match(self.source, self.at)
        if found is None:
            refuse("a `${...}` does not begin by a variable's name", "write ${name}")
        self.at = found.end()
        return found[0].decode()

    def _subscript(self) -> bool:
        """Past `[...]`; whether it asks for all elements."""
        if self.peek() != b"[":
            return False
        found = _SUBSCRIPT.match(self.source, self.at)
        if found is None:
            refuse("the index of an array is not a plain number or name", "use numbers as indices")
        self._pass(found.end())
        if found[1] in (b"@", b"*"):
            return True
        self._evaluate(found[1].decode())
        return False

    def _operation(self, name: str, *, quoted: bool) -> tuple[Parts, ...]:
        found = _OPERATION.match(self.source, self.at)
        if found is not None:
            self.at = found.end()
            if found[0].endswith(b"="):
                self.defaulted.append(name)
            return (self._default(quoted=quoted),)
        if self.peek() == b":":
            self._slice()
        elif self.peek() == b"@":
            refuse("`${name@...}` may run what the variable holds", "write ${name}")
        return ()

    def _slice(self) -> None:
        end = self.source.find(b"}", self.at)
        text = self.source[self.at + 1 : end if end >= 0 else len(self.source)]
        if text.count(b"${"):
            refuse("an offset in `${name:offset}` is not a plain number or name", "use numbers as offsets")
        self._pass(self.at + 1 + len(text))
        self._evaluate(text.decode())

    def _default(self, *, quoted: bool) -> Parts:
        """What follows the operator, up to the closing brace."""
        parts: list[Part] = []
        while (character := self.peek()) != b"}":
            if not character or character == b"\n":
                refuse("a `${...}` is not closed on its line", "close it by }")
            if quoted and (character in b"'\"" or self.source[self.at : self.at + 2] in (b"$'", b'$"')):
                refuse("quotes stand within a `${...}` within quotes", "set the variable in a line of its own first")
            if character in b"<>" and self.source[self.at + 1 : self.at + 2] == b"(":
                refuse("a process is substituted within a `${...}`", "set the variable in a line of its own first")
            parts.extend(self._unquoted(character, _PLAIN_DEFAULT))
        return tuple(parts)

    # -- arrays

    def _elements(self) -> Elements:
        words: list[Parts] = []
        self.at += 1
        with self.deeper():
            while (word := self._element()) is not None:
                words.append(word)
        return Elements(words=tuple(words))

    def _element(self) -> Parts | None:
        while self.peek() and self.peek() in b" \t\n":
            self._pass(self.at + 1)
        character = self.peek()
        if character == b")":
            self.at += 1
            return None
        if not character or character in b"[#(;&|":
            refuse("an array holds more than plain words", "write name=(one two three)")
        return self.word()

    def _pass(self, end: int) -> None:
        if self.source.find(b"\n", self.at, end) >= 0:
            self.newline_inside()
        self.at = end


def _is_array(parts: list[Part]) -> bool:
    text = "".join(part.text if isinstance(part, WordPiece) and not part.quoted else "\0" for part in parts)
    return _ARRAY.fullmatch(text) is not None
