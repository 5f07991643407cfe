"""A script's invocations, in the order they are written, by the policy's lexer and grammar."""

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from forgepool.workers.shell.language.parser import Parser
from forgepool.workers.shell.language.refusal import Refusal
from forgepool.workers.shell.language.scanner import Scanner
from forgepool.workers.shell.language.script import Reads, ReadsInput, RunsCommand, ShellWord
from forgepool.workers.shell.language.syntax import (
    AndOrList,
    Bare,
    Compound,
    Function,
    Pipeline,
    Redirection,
    Region,
    Sequence,
    Simple,
    Statement,
    Token,
)
from forgepool.workers.shell.language.words import find_assigned_name, read_assigned_value, read_word, regions_in
from forgepool.workers.shell.programs.effects import effects_of
from forgepool.workers.shell.redirections import find_opened

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_KNOWN_ONLY_LATER = re.compile(r"[$`'\"\\{}()<>]")
_DEEPEST = 5
_MOST_NAMES = 16
_SILENT = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/fd/")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedByShell:
    """A file that the shell opens. `names` are empty where the name is not known."""

    names: tuple[str, ...]
    mode: Literal["read", "write"]
    append: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    words: tuple[ShellWord, ...]
    """The program first; empty where there are redirections alone."""
    folder: str | None = ""
    """Where it runs; None where that is not known."""
    opened: tuple[OpenedByShell, ...] = ()
    text: str | None = None
    """What a heredoc or `<<<` feeds it."""
    fed_by: tuple[int, ...] = ()
    """The places of those whose output it is fed."""
    fed: bool = False
    seen: bool = True
    """Its output is not fed to another, kept in a file or made a word of."""
    aside: bool = False
    """Its output becomes a word of another."""
    wraps: bool = False
    """It runs another one, which comes next."""
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Variables that are known where it runs."""

    @property
    def program(self) -> str:
        return posixpath.basename(self.words[0].text) if self.words else ""

    @property
    def arguments(self) -> tuple[ShellWord, ...]:
        return self.words[1:]

    def names(self, word: ShellWord) -> tuple[str, ...]:
        """The files a word may stand for, patterns among them; empty where only the shell knows."""
        return tuple(join_path(self.folder, name) for name in expand_word(word, self.values))


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundInvocations:
    invocations: tuple[Invocation, ...]
    bare: str
    """The script without what its heredocs hold."""


def invocations(text: str, folder: str = "", *, depth: int = 0) -> FoundInvocations:
    """
    All of a script that starts in `folder`.

    Raises:
        Refusal: the grammar does not know what it is.
    """
    source = text.encode(errors="replace")
    scanner = Scanner(source)
    top = scanner.read()
    walk = _Walk(source, depth)
    for region in (*scanner.regions, top):
        walk.parsed[id(region)] = Parser(region).parse()
    walk.sequence(walk.parsed[id(top)], _Place(folder=folder))
    return FoundInvocations(invocations=tuple(walk.found), bare=_bare(source, (*scanner.regions, top)))


def expand_word(word: ShellWord, values: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """What a word comes to, where it holds nothing but text, patterns for file names and variables that are known."""
    if word.static or not word.written.strip("."):
        return (word.text,) if word.text else ()
    text = word.written
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
    names = [one or other for one, other in _VARIABLE.findall(text)]
    if not all(name in values for name in names) or _KNOWN_ONLY_LATER.search(_VARIABLE.sub("", text)):
        return ()
    found = [text]
    for name in dict.fromkeys(names):
        own = re.compile(rf"\$(?:\{{{name}\}}|{name}(?!\w))")
        found = [own.sub(value.replace("\\", r"\\"), each) for each in found for value in values[name]][:_MOST_NAMES]
    return tuple(found)


def join_path(folder: str | None, path: str) -> str:
    return posixpath.join(folder, path) if folder and path != "-" and path[:1] != "~" else path


@dataclass(slots=True, kw_only=True)
class _Place:
    folder: str | None
    values: dict[str, tuple[str, ...]] = field(default_factory=dict)
    seen: bool = True
    aside: bool = False

    def apart(self) -> "_Place":
        return replace(self, values=dict(self.values))


class _Walk:
    def __init__(self, source: bytes, depth: int) -> None:
        self.found: list[Invocation] = []
        self.parsed: dict[int, Sequence] = {}
        self._source = source
        self._depth = depth

    def sequence(self, sequence: Sequence, place: _Place, fed_by: tuple[int, ...] = (), *, fed: bool = False) -> None:
        for part in sequence.parts:
            self._statement(part, place, fed_by, fed)

    def _statement(self, statement: Statement, place: _Place, fed_by: tuple[int, ...], fed: bool) -> None:
        match statement:
            case Simple():
                self._simple(statement, place, fed_by, fed)
            case Bare(token=token):
                self._substitutions(token.operands, place)
            case Pipeline(parts=parts):
                self._pipeline(parts, place, fed_by, fed)
            case AndOrList(parts=parts):
                for part in parts:
                    self._statement(part, place, fed_by, fed)
            case Sequence():
                self.sequence(statement, place, fed_by, fed=fed)
            case Compound():
                self._compound(statement, place, fed_by, fed)
            case Function(body=body):
                self._statement(body, place.apart(), (), False)

    def _pipeline(self, parts: tuple[Statement, ...], place: _Place, fed_by: tuple[int, ...], fed: bool) -> None:
        for index, part in enumerate(parts):
            start = len(self.found)
            inside = place.apart()
            inside.seen = place.seen and index == len(parts) - 1
            self._statement(part, inside, fed_by, fed or index > 0)
            fed_by = tuple(at for at in range(start, len(self.found)) if _goes_on(self.found[at]))

    def _compound(self, compound: Compound, place: _Place, fed_by: tuple[int, ...], fed: bool) -> None:
        inside = place.apart() if compound.kind == "(" else place
        files = self._opened(compound.redirections, place)
        kept = any(file.mode == "write" for file in files)
        if files:
            self.found.append(Invocation(words=(), folder=place.folder, opened=files, seen=False))
        self._substitutions(compound.words, place)
        if compound.kind == "for" and compound.variable:
            self._loop(compound, inside)
        before, inside.seen = inside.seen, inside.seen and not kept
        for part in compound.parts:
            self.sequence(part, inside, fed_by, fed=fed)
        inside.seen = before

    def _loop(self, compound: Compound, place: _Place) -> None:
        found = [expand_word(read_word(token), place.values) for token in compound.words]
        place.values.pop(compound.variable, None)
        if found and all(found):
            place.values[compound.variable] = tuple(name for names in found for name in names)

    def _simple(self, simple: Simple, place: _Place, fed_by: tuple[int, ...], fed: bool) -> None:
        self._substitutions((*simple.assignments, *simple.words), place)
        if not simple.words:
            self._assign(simple.assignments, place)
        elif simple.words[0].raw in ("export", "local", "declare", "readonly"):
            self._assign([word for word in simple.words if find_assigned_name(word) is not None], place)
        files = self._opened(simple.redirections, place)
        one = Invocation(
            words=tuple(read_word(word) for word in simple.words),
            folder=place.folder,
            opened=files,
            text=self._fed_text(simple.redirections),
            fed_by=fed_by,
            fed=fed,
            seen=place.seen and _shows(simple.redirections),
            aside=place.aside,
            values=dict(place.values),
        )
        if one.words or files:
            self._run(one, place)

    def _run(self, one: Invocation, place: _Place) -> None:
        at = len(self.found)
        self.found.append(one)
        if one.program in ("cd", "pushd", "popd"):
            place.folder = _moved(one, place)
        self._depth += 1
        if one.words and self._depth <= _DEEPEST and self._run_others(one, place):
            self.found[at] = replace(one, wraps=True)
        self._depth -= 1

    def _run_others(self, one: Invocation, place: _Place) -> bool:
        """Whether it runs others: `timeout 60 pytest`, `bash -c '...'`, `find -exec ...`. They are walked through."""
        before = len(self.found)
        try:
            effects = effects_of(one.words, external=False)
        except Refusal:
            return False
        for effect in effects:
            match effect:
                case RunsCommand(argv=argv) if argv:
                    self._run(replace(one, words=argv, opened=()), place.apart())
                case Reads(text=text):
                    self._text(text, one)
                case ReadsInput() if one.text is not None:
                    self._text(one.text, one)
        return len(self.found) > before

    def _text(self, text: str, one: Invocation) -> None:
        try:
            found = invocations(text, one.folder or "", depth=self._depth).invocations
        except Refusal:
            return
        start = len(self.found)
        for inner in found:
            fed_by = tuple(at + start for at in inner.fed_by) or one.fed_by
            self.found.append(
                replace(inner, fed_by=fed_by, seen=inner.seen and one.seen, aside=inner.aside or one.aside)
            )

    def _assign(self, tokens: Iterable[Token], place: _Place) -> None:
        for token in tokens:
            name = find_assigned_name(token)
            value, _ = read_assigned_value(token)
            place.values.pop(name or "", None)
            if name and (found := expand_word(value, place.values)):
                place.values[name] = found

    def _substitutions(self, tokens: tuple[Token, ...], place: _Place) -> None:
        for token in tokens:
            for region in regions_in(token.parts):
                inside = place.apart()
                inside.seen, inside.aside = False, True
                self.sequence(self.parsed[id(region)], inside)

    def _opened(self, redirections: tuple[Redirection, ...], place: _Place) -> tuple[OpenedByShell, ...]:
        files = []
        for redirection in redirections:
            if redirection.target is None or (found := _opens(redirection)) is None:
                continue
            mode, word = found
            self._substitutions((redirection.target,), place)
            names = tuple(join_path(place.folder, name) for name in expand_word(word, place.values))
            if not names or not names[0].startswith(_SILENT):
                files.append(OpenedByShell(names=names, mode=mode, append=redirection.operator.raw in (">>", "&>>")))
        return tuple(files)

    def _fed_text(self, redirections: tuple[Redirection, ...]) -> str | None:
        for redirection in redirections:
            body = redirection.operator.body
            if body is not None:
                return self._source[body.start : body.end].decode(errors="replace")
            if redirection.operator.raw == "<<<" and redirection.target is not None:
                return read_word(redirection.target).text
        return None


def _opens(redirection: Redirection) -> tuple[Literal["read", "write"], ShellWord] | None:
    try:
        return find_opened(redirection)
    except Refusal:
        return None


def _goes_on(one: Invocation) -> bool:
    """What it prints goes down the pipe."""
    return not (one.wraps or one.aside or any(file.mode == "write" for file in one.opened))


def _shows(redirections: tuple[Redirection, ...]) -> bool:
    """Whether what it prints does not go elsewhere."""
    return not any(
        each.descriptor in ("", "1") and each.operator.raw in (">", ">>", ">|", "&>", "&>>") for each in redirections
    )


def _moved(one: Invocation, place: _Place) -> str | None:
    found = expand_word(one.words[-1], place.values) if len(one.words) > 1 else ()
    if one.program == "popd" or len(found) != 1 or found[0] == "-":
        return None
    if place.folder is None and not found[0].startswith("/"):
        return None
    return join_path(place.folder, found[0])


def _bare(source: bytes, regions: tuple[Region, ...]) -> str:
    """Cut from behind, so that what stands before stays where it is."""
    bodies = {(token.body.start, token.body.end) for region in regions for token in region.tokens if token.body}
    for start, end in sorted(bodies, reverse=True):
        if start >= 0:
            after = source.find(b"\n", end)
            source = source[:start] + (source[after + 1 :] if after >= 0 else b"")
    return source.decode(errors="replace").strip()
