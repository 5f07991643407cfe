"""
One language server, from its start to its end: introduced, told what is on the disk, asked.

Runs on the loop of an `Aside`. Imported with the first question: the protocol's types are heavy.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pydantic import JsonValue
from pygls.exceptions import JsonRpcException
from pygls.io_ import run_async
from pygls.lsp.client import LanguageClient

from workers.lsp import wire
from workers.lsp.answers import Edits, Finding, NoAnswer, Reference, Symbol
from workers.lsp.disk import Fate
from workers.lsp.opened import Opened, text_of
from workers.sandbox.dialogue import Dialogue
from workers.tool_config import LanguageServer

T = TypeVar("T")

_QUIET_S = 0.4
"""How long nothing more must be said of a file by a server that says what is wrong when it likes."""

_FATES = {
    "created": types.FileChangeType.Created,
    "changed": types.FileChangeType.Changed,
    "deleted": types.FileChangeType.Deleted,
}

# What a server does wrong is told to the model or not at all; pygls would write it to the worker's output.
logging.getLogger("pygls").setLevel(logging.CRITICAL + 1)


class Gone(Exception):
    """The server's process has ended, or has stopped to speak the protocol."""


class Conversation:
    def __init__(self, server: LanguageServer, dialogue: Dialogue, root: Path) -> None:
        self._server = server
        self._dialogue = dialogue
        self._root = root
        self._client = _client(server)
        self._opened: dict[Path, Opened] = {}
        self._published: dict[Path, tuple[int, tuple[Finding, ...]]] = {}
        """What was said of a file without being asked, and how often something was."""
        self._news = asyncio.Condition()
        self._busy: set[str | int] = set()
        self._pulls = False
        self._client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(self._take_findings)
        self._client.feature(types.CLIENT_REGISTER_CAPABILITY)(self._take_registrations)
        self._client.feature(types.PROGRESS)(self._take_progress)

    async def begin(self) -> None:
        """
        Raises:
            Gone: it did not get as far as to introduce itself.
        """
        reader, writer = await self._dialogue.connect()
        self._client.protocol.set_writer(writer)
        listening = run_async(stop_event=threading.Event(), reader=reader, protocol=self._client.protocol)
        self._listening = asyncio.ensure_future(_until_the_end(listening))
        found = await self._answered(self._client.initialize_async(wire.introduction(self._server, self._root)))
        self._pulls = found.capabilities.diagnostic_provider is not None
        self._client.initialized(types.InitializedParams())
        self._client.workspace_did_change_configuration(
            types.DidChangeConfigurationParams(settings=dict(self._server.settings))
        )

    async def close(self) -> None:
        """Says goodbye, and waits for no answer."""
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self._client.shutdown_async(None), 0.5)
            self._client.exit(None)
        await self._dialogue.hang_up()

    def told(self, fates: dict[Path, Fate]) -> None:
        """What changed on the disk; files that are open are told anew with their text."""
        for path, opened in list(self._opened.items()):
            self._tell_again(path, opened)
        events = [types.FileEvent(uri=path.as_uri(), type=_FATES[fate]) for path, fate in fates.items()]
        if events:
            self._client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams(changes=events))

    def show(self, path: Path) -> str:
        """
        The file's text, which the server now knows.

        Raises:
            NoAnswer: there is no such file, or it is too large.
        """
        if path not in self._opened:
            text = text_of(path)
            if text is None:
                raise NoAnswer(f"{path.name}: no such file")
            language = self._server.files.get(path.suffix, "")
            document = types.TextDocumentItem(uri=path.as_uri(), language_id=language, version=1, text=text)
            self._opened[path] = Opened(1, text)
            self._client.text_document_did_open(types.DidOpenTextDocumentParams(text_document=document))
        return self._opened[path].text

    async def settled(self) -> None:
        """Waits until the server has nothing more in hand that it told of, such as reading the whole project."""
        async with self._news:
            await self._news.wait_for(lambda: not self._busy or self._listening.done())

    async def symbols(self, name: str) -> tuple[Symbol, ...]:
        """Of the whole project, those whose name is like this one."""
        params = types.WorkspaceSymbolParams(query=name)
        return tuple(wire.workspace_symbols(await self._answered(self._client.workspace_symbol_async(params))))

    async def symbols_in(self, path: Path) -> tuple[Symbol, ...]:
        self.show(path)
        params = types.DocumentSymbolParams(text_document=_document(path))
        return tuple(
            wire.document_symbols(await self._answered(self._client.text_document_document_symbol_async(params)), path)
        )

    async def references(self, path: Path, line: int, column: int) -> tuple[Reference, ...]:
        params = types.ReferenceParams(
            text_document=_document(path),
            position=types.Position(line, column),
            context=types.ReferenceContext(include_declaration=True),
        )
        return wire.references(await self._answered(self._client.text_document_references_async(params)))

    async def rename(self, path: Path, line: int, column: int, new_name: str) -> Edits:
        params = types.RenameParams(
            text_document=_document(path), position=types.Position(line, column), new_name=new_name
        )
        return wire.edits(await self._answered(self._client.text_document_rename_async(params)))

    async def findings(self, path: Path) -> tuple[Finding, ...]:
        """What is wrong with a file, as it is now."""
        known = self._opened.get(path)
        self.show(path)
        if self._pulls:
            params = types.DocumentDiagnosticParams(text_document=_document(path))
            report = await self._answered(self._client.text_document_diagnostic_async(params))
            found = report.items if isinstance(report, types.RelatedFullDocumentDiagnosticReport) else ()
            return wire.findings(found, path)
        return await self._said_of(path, 0 if known is None else self._asked_at.get(path, 0))

    async def _said_of(self, path: Path, before: int) -> tuple[Finding, ...]:
        """What the server says by itself, once it has said something since the file was told and then fallen silent."""
        async with self._news:
            await self._news.wait_for(lambda: self._count(path) > before or self._listening.done())
        count = before
        while self._count(path) != count:
            count = self._count(path)
            await asyncio.sleep(_QUIET_S)
        if self._listening.done():
            raise Gone
        return self._published[path][1]
