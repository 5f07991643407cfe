"""
`find_symbol`, `find_references`, `rename_symbol`, `diagnostics`: questions about code to whoever understands it.

A model knows lines and names, not columns: where on the line a name stands is found here.
"""

import re
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from pydantic import Field

from forgepool.workers.tools.files.listing import show_name
from forgepool.workers.tools.files.text_file import MAX_BYTES, read_text, receipt, write_text
from forgepool.workers.tools.lsp.documents import (
    Diagnostic,
    Edits,
    NoAnswer,
    Reference,
    Symbol,
    TextChange,
    apply_changes,
    columns_of,
    lines_of,
    plain_name,
    units,
)
from forgepool.workers.tools.lsp.servers import ANSWER_S, LanguageServers, RunningServer
from forgepool.workers.tools.tool import Arguments, Tool, ToolAnswer, make_typed_tool
from forgepool.workers.tools.workplace import ToolRefused, Workplace

if TYPE_CHECKING:
    from forgepool.workers.tools.lsp.conversation import ServerConversation

T = TypeVar("T")

_MOST_LINES = 60
_LINE_CHARACTERS = 160
_LOOKED_INTO = 40
"""How many files are looked into for a definition that no server tells of the whole project."""
_DEFINING = rb"class|def|func|fn|function|struct|enum|trait|interface|type|const|static|let|var|define"
_CHECKED = 30
"""How many changed files are checked in one call."""


class FindSymbol(Arguments):
    name: str = Field(
        min_length=1, max_length=200, description="a function, class, method, variable: `open`, `Shop.open`"
    )
    path: str | None = Field(default=None, description="a file or folder to look in; all of the project without it")


class FindReferences(Arguments):
    path: str
    line: int = Field(ge=1, description="a line on which the symbol stands, from 1")
    symbol: str = Field(min_length=1, max_length=200)


class RenameSymbol(Arguments):
    path: str
    line: int = Field(ge=1, description="a line on which the symbol stands, from 1")
    symbol: str = Field(min_length=1, max_length=200)
    new_name: str = Field(min_length=1, max_length=200)


class Diagnostics(Arguments):
    path: str | None = Field(default=None, description="one file; without it, all files changed since the work began")


def symbol_tools(servers: LanguageServers) -> tuple[Tool, ...]:
    """The tools over an order's servers; none where there is no server for the worktree's languages."""
    if not servers.running:
        return ()
    known = ", ".join(sorted({suffix for each in servers.running for suffix in each.server.files}))
    return (
        make_typed_tool(
            "find_symbol",
            f"Tells where a name is defined (files: {known}).",
            FindSymbol,
            lambda arguments, workplace: _find_symbol(servers, arguments, workplace),
            kind="read",
        ),
        make_typed_tool(
            "find_references",
            f"Tells every place that uses what a name on a line means, its definition too (files: {known}).",
            FindReferences,
            lambda arguments, workplace: _find_references(servers, arguments, workplace),
            kind="read",
        ),
        make_typed_tool(
            "rename_symbol",
            f"Gives what a name on a line means another name, in all files that use it (files: {known}).",
            RenameSymbol,
            lambda arguments, workplace: _rename_symbol(servers, arguments, workplace),
            kind="write",
        ),
        make_typed_tool(
            "diagnostics",
            f"Tells errors and warnings, such as wrong types and unknown names, without running anything ({known}).",
            Diagnostics,
            lambda arguments, workplace: _diagnostics(servers, arguments, workplace),
            kind="read",
        ),
    )


def _find_symbol(servers: LanguageServers, arguments: FindSymbol, workplace: Workplace) -> ToolAnswer:
    where = workplace.root if arguments.path is None else workplace.path(arguments.path)
    if where.is_file():
        asked: tuple[RunningServer, ...] = (_server_of(servers, where, arguments.path or ""),)
    elif where.is_dir():
        asked = servers.running
    else:
        raise ToolRefused(f"{arguments.path}: no such file or folder; leave it out to look everywhere")
    found = {symbol for each in asked for symbol in _definitions(each, arguments.name, where, workplace)}
    if not found:
        return ToolAnswer(text=f"no definition of {arguments.name} was found; grep may find the text")
    lines = [
        f"{_place(each.path, each.line, workplace)} {each.kind} {each.name}"
        + (f" (in {each.container})" if each.container else "")
        for each in sorted(found, key=lambda symbol: (symbol.path, symbol.line))
    ]
    return ToolAnswer(text=_listed(lines, "definitions"))


def _definitions(server: RunningServer, name: str, where: Path, workplace: Workplace) -> list[Symbol]:
    """
    Asked of the project first; where that tells nothing, of the files that hold the name; then of the project again.

    Servers that have just started may not have read the project when they are asked, and not say so.
    """
    plain = plain_name(name)

    def find_meant(symbols: Iterable[Symbol]) -> list[Symbol]:
        below = [each for each in symbols if _bare(each.name) == plain and each.path.is_relative_to(where)]
        return [each for each in below if _owned(each, name)] or below

    if where.is_file():
        return find_meant(_ask(server, partial(_symbols_in, where), workplace))
    found = find_meant(_ask(server, lambda talk: talk.symbols(plain), workplace))
    holding = () if found else _holding(server, plain, where, workplace)
    for path in holding:
        found += find_meant(_ask(server, partial(_symbols_in, path), workplace))
    if holding and not found:
        found = find_meant(_ask(server, lambda talk: talk.symbols(plain), workplace))
    return found


def _bare(name: str) -> str:
    """Some servers tell a function with its arguments, a method with its type."""
    return plain_name(re.split(r"[(<]", name)[0].strip())


def _owned(symbol: Symbol, name: str) -> bool:
    """Whether the symbol is in what the name says it is in: in `Shop`, of `Shop.open`."""
    owner = name.removesuffix("()")[: -len(plain_name(name))].rstrip(".:#")
    return owner != "" and plain_name(owner) in re.split(r"\W+", f"{symbol.container} {symbol.name}")


def _holding(server: RunningServer, name: str, where: Path, workplace: Workplace) -> tuple[Path, ...]:
    """Files below a folder that have the name in them; those that seem to define it first."""
    defining = re.compile(rb"\b(?:" + _DEFINING + rb")\b[^\n=]*\b" + re.escape(name.encode()) + rb"\b")
    found: list[tuple[bool, Path]] = []
    for path in server.files():
        if path.is_relative_to(where) and name.encode() in (data := _bytes_of(path, workplace)):
            found.append((defining.search(data) is None, path))
    return tuple(path for _, path in sorted(found)[:_LOOKED_INTO])


def _bytes_of(path: Path, workplace: Workplace) -> bytes:
    """Of a path that was not judged: a server may tell of any, and a link may lie at it."""
    try:
        folder, below = workplace.open_parent(path)
        return folder.read(below, most_bytes=MAX_BYTES)
    except (OSError, ToolRefused, ValueError):
        return b""


def _find_references(servers: LanguageServers, arguments: FindReferences, workplace: Workplace) -> ToolAnswer:
    def ask(talk: "ServerConversation", path: Path, line: int, column: int) -> Awaitable[tuple[Reference, ...]]:
        return talk.references(path, line, column)

    found = _of_symbol(servers, arguments, workplace, ask)
    inside = [each for each in found if each.path.is_relative_to(workplace.root)]
    texts = {path: lines_of(_text_of(path, workplace)) for path in {each.path for each in inside}}
    lines = {
        f"{_place(each.path, each.line, workplace)} {_excerpt(texts[each.path], each.line)}": None for each in inside
    }
    outside = len(found) - len(inside)
    more = f"\n[and {outside} outside the worktree]" if outside else ""
    if not found:
        return ToolAnswer(
            text=f"nothing is known to use {arguments.symbol} of line {arguments.line}; grep finds its text"
        )
    return ToolAnswer(text=_listed(list(lines), "lines") + more)


def _rename_symbol(servers: LanguageServers, arguments: RenameSymbol, workplace: Workplace) -> ToolAnswer:
    def ask(talk: "ServerConversation", path: Path, line: int, column: int) -> Awaitable[Edits]:
        return talk.rename(path, line, column, arguments.new_name)

    edits = _of_symbol(servers, arguments, workplace, ask)
    if not edits:
        raise ToolRefused(f"{arguments.symbol} of line {arguments.line} cannot be renamed; edit its uses by hand")
    contents = {}
    for path, changes in sorted(edits.items()):
        inside = workplace.path(str(path))
        text = read_text(inside, workplace.name(inside), workplace)
        contents[inside] = (text, _changed(text, changes, workplace.name(inside)))
    sizes = _write_all(contents, workplace)
    places = sum(map(len, edits.values()))
    receipts = [receipt(size, workplace.name(path), workplace.iteration) for path, size in sizes.items()]
    said = (
        f"{arguments.symbol} is {arguments.new_name} now: {_counted(places, 'place')} in {_counted(len(sizes), 'file')}"
    )
    return ToolAnswer(text="\n".join([said, *receipts]))


def _changed(text: str, changes: Iterable[TextChange], name: str) -> str:
    try:
        return apply_changes(text, changes)
    except ValueError as wrong:
        raise ToolRefused(f"{name}: {wrong}; nothing was renamed, edit by hand") from wrong


def _write_all(contents: dict[Path, tuple[str, str]], workplace: Workplace) -> dict[Path, int]:
    """All files or none: what was written is put back when a later one cannot be."""
    sizes: dict[Path, int] = {}
    try:
        for path, (_, after) in contents.items():
            sizes[path] = write_text(path, after, workplace)
    except (OSError, ToolRefused):
        for path in sizes:
            write_text(path, contents[path][0], workplace)
        raise
    return sizes


def _diagnostics(servers: LanguageServers, arguments: Diagnostics, workplace: Workplace) -> ToolAnswer:
    if arguments.path is not None:
        path = _file(arguments.path, workplace)
        asked = [(_server_of(servers, path, arguments.path), path)]
        whole = workplace.name(path)
    else:
        asked = [(each, path) for each in servers.running for path in each.list_changed_files()]
        whole = f"the {_counted(len(asked), 'file')} changed since the work began"
    if not asked:
        return ToolAnswer(text="no file in a known language has changed since the work began; name one to check it")
    found: list[Diagnostic] = []
    for server, path in asked[:_CHECKED]:
        found += _ask(server, partial(_findings, path), workplace)
    more = f"\n[only the first {_CHECKED} of {len(asked)} files were checked]" if len(asked) > _CHECKED else ""
    if not found:
        return ToolAnswer(text=f"no errors or warnings in {whole}{more}")
    found.sort(key=lambda each: (each.severity, each.path, each.line, each.column))
    lines = [_finding(each, workplace) for each in found]
    return ToolAnswer(text=_listed(lines, "errors and warnings") + more)


def _symbols_in(path: Path, talk: "ServerConversation") -> Awaitable[tuple[Symbol, ...]]:
    return talk.symbols_in(path)


def _findings(path: Path, talk: "ServerConversation") -> Awaitable[tuple[Diagnostic, ...]]:
    return talk.findings(path)


def _finding(found: Diagnostic, workplace: Workplace) -> str:
    message = " ".join(found.message.split())
    place = f"{show_name(workplace.name(found.path))}:{found.line + 1}:{found.column + 1}"
    return f"{place} {found.severity} {message[: 2 * _LINE_CHARACTERS]}"


class _OnALine(Protocol):
    @property
    def path(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def symbol(self) -> str: ...


def _of_symbol(
    servers: LanguageServers,
    arguments: _OnALine,
    workplace: Workplace,
    ask: "Callable[[ServerConversation, Path, int, int], Awaitable[T]]",
) -> T:
    """
    What is told of a name on a line, wherever on it that stands.

    Raises:
        Refused: it does not stand there, or stands there with more than one meaning.
    """
    path = _file(arguments.path, workplace)
    server = _server_of(servers, path, arguments.path)
    name = plain_name(arguments.symbol)
    line = arguments.line - 1

    async def everywhere(talk: "ServerConversation") -> list[T]:
        lines = lines_of(talk.show(path))
        columns = _columns(lines[line], arguments.symbol) if line < len(lines) else []
        if not columns:
            raise NoAnswer(_not_there(lines, arguments, name))
        return [await ask(talk, path, line, column) for column in columns]

    answers = _ask(server, everywhere, workplace)
    telling = [each for each in answers if each] or answers
    if any(each != telling[0] for each in telling):
        raise ToolRefused(
            f"{arguments.path}:{arguments.line}: {name} means several things on this line; give a line where it "
            "stands once"
        )
    return telling[0]


def _columns(line: str, symbol: str) -> list[int]:
    """Where the name stands with its owner as it was given (`shop.open`), else wherever it stands."""
    owned, name = symbol.removesuffix("()"), plain_name(symbol)
    before = units(owned) - units(name)
    return [column + before for column in columns_of(line, owned)] or columns_of(line, name)


def _not_there(lines: list[str], arguments: _OnALine, name: str) -> str:
    having = [str(number) for number, line in enumerate(lines, start=1) if columns_of(line, name)]
    where = (
        f"it stands on {', '.join(having[:12])}{', ...' if len(having) > 12 else ''}"
        if having
        else "it stands nowhere in the file"
    )
    return f"{arguments.path}: line {arguments.line} of {len(lines) - (lines[-1] == '')} does not have {name}; {where}"


def _file(asked: str, workplace: Workplace) -> Path:
    path = workplace.path(asked)
    if not path.is_file():
        read_text(path, asked, workplace)  # says what is wrong with it
    return path


def _server_of(servers: LanguageServers, path: Path, asked: str) -> RunningServer:
    server = servers.of(path)
    if server is None:
        known = ", ".join(sorted({suffix for each in servers.running for suffix in each.server.files}))
        raise ToolRefused(f"{asked}: its language is not known here, only {known}; use grep")
    return server


def _ask(server: RunningServer, question: "Callable[[ServerConversation], Awaitable[T]]", workplace: Workplace) -> T:
    try:
        within_s = max(0.1, min(ANSWER_S, workplace.left_s()))
        return server.ask(question, within_s=within_s, stop=workplace.stop)
    except NoAnswer as none:
        raise ToolRefused(str(none)) from none


def _text_of(path: Path, workplace: Workplace) -> str:
    return _bytes_of(path, workplace).decode(errors="replace")


def _excerpt(lines: list[str], line: int) -> str:
    text = " ".join(lines[line].split()) if line < len(lines) else ""
    return text if len(text) <= _LINE_CHARACTERS else f"{text[:_LINE_CHARACTERS]}..."


def _place(path: Path, line: int, workplace: Workplace) -> str:
    return f"{show_name(workplace.name(path))}:{line + 1}:"


def _listed(lines: list[str], what: str) -> str:
    if len(lines) <= _MOST_LINES:
        return "\n".join(lines)
    return "\n".join([*lines[:_MOST_LINES], f"[{len(lines)} {what}, the first {_MOST_LINES} are shown]"])


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
