"""
One language server, from its start to its end: introduced, told what is on the disk, asked.

Runs on the loop of an `Aside`. Imported with the first question: the protocol's types are heavy.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

from lsprotocol import types
from pydantic import JsonValue
from pygls.exceptions import JsonRpcException
from pygls.io_ import run_async
from pygls.lsp.client import LanguageClient

from forgepool.workers.sandbox.run.dialogue import Dialogue
from forgepool.workers.tools.config import LanguageServer
from forgepool.workers.tools.lsp import wire
from forgepool.workers.tools.lsp.documents import (
    Diagnostic,
    Edits,
    Fate,
    NoAnswer,
    OpenedFile,
    Reference,
    Symbol,
    text_of,
)
from forgepool.worktrees.git.beneath import Beneath

T = TypeVar("T")

_QUIET_S = 0.4
"""How long nothing more must be said of a file by a server that says what is wrong when it likes."""

_BEGIN_S = 1.0
"""How long after it announced something a server may take to begin with it."""

_FATES = {
    "created": types.FileChangeType.Created,
    "changed": types.FileChangeType.Changed,
    "deleted": types.FileChangeType.Deleted,
}

# What a server does wrong is told to the model or not at all; pygls would write it to the worker's output.
logging.getLogger("pygls").setLevel(logging.CRITICAL + 1)


class Gone(Exception):
    """The server's process has ended, or has stopped to speak the protocol."""


class ServerConversation:
    def __init__(self, server: LanguageServer, dialogue: Dialogue, root: Path) -> None:
        self._server = server
        self._dialogue = dialogue
        self._root = Beneath(root)
        self._client = _client(server)
        self._opened: dict[Path, OpenedFile] = {}
        self._published: dict[Path, tuple[int, tuple[Diagnostic, ...]]] = {}
        """What was said of a file without being asked, and how often something was."""
        self._news = asyncio.Event()
        self._busy: set[str | int] = set()
        self._expected: set[str | int] = set()
        self.works_begun = 0
        """How often it has told that it begins with something that takes a while."""
        self._pulls = False
        """Whether it says what is wrong with a file when it is asked; else it says so when it likes."""
        self._tells_of_all = False
        # Functions of their own: pygls writes on them.
        self._client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(lambda params: self._take_findings(params))
        self._client.feature(types.CLIENT_REGISTER_CAPABILITY)(lambda params: self._take_registrations(params))
        self._client.feature(types.WINDOW_WORK_DONE_PROGRESS_CREATE)(lambda params: self._take_announcement(params))
        self._client.feature(types.PROGRESS)(lambda params: self._take_progress(params))

    async def begin(self) -> None:
        """
        Raises:
            Gone: it did not get as far as to introduce itself.
        """
        reader, writer = await self._dialogue.connect()
        self._client.protocol.set_writer(writer)
        self._listening = asyncio.ensure_future(self._listen(reader))
        found = await self._answered(self._client.initialize_async(wire.introduction(self._server, self._root.path)))
        self._pulls = found.capabilities.diagnostic_provider is not None
        self._tells_of_all = bool(found.capabilities.workspace_symbol_provider)
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

    def tell_changes(self, fates: dict[Path, Fate]) -> None:
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
            text = text_of(path, self._root)
            if text is None:
                raise NoAnswer(f"{path.name}: no such file")
            language = self._server.files.get(path.suffix, "")
            document = types.TextDocumentItem(uri=path.as_uri(), language_id=language, version=1, text=text)
            self._opened[path] = OpenedFile(1, text, self._heard(path))
            self._client.text_document_did_open(types.DidOpenTextDocumentParams(text_document=document))
        return self._opened[path].text

    async def settle(self) -> None:
        """Waits until the server has nothing more in hand that it told of, such as reading the whole project."""
        await self._until(lambda: not self._busy)

    async def symbols(self, name: str) -> tuple[Symbol, ...]:
        """Of the whole project, those whose name is like this one; none where the server does not tell of all of it."""
        if not self._tells_of_all:
            return ()
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

    async def findings(self, path: Path) -> tuple[Diagnostic, ...]:
        """What is wrong with a file, as it is now."""
        self.show(path)
        if not self._pulls:
            return await self._said_of(path)
        params = types.DocumentDiagnosticParams(text_document=_document(path))
        report = await self._answered(self._client.text_document_diagnostic_async(params))
        found = report.items if isinstance(report, types.RelatedFullDocumentDiagnosticReport) else ()
        return wire.findings(found, path)

    async def _said_of(self, path: Path) -> tuple[Diagnostic, ...]:
        """What the server says by itself, once it has spoken since the file was told, and then fallen silent."""
        told = self._opened[path]
        await self._until(lambda: self._heard(path) > told.heard)
        heard = told.heard
        while self._heard(path) != heard:
            heard = self._heard(path)
            await asyncio.sleep(_QUIET_S)
        return self._published[path][1]

    def _heard(self, path: Path) -> int:
        return self._published.get(path, (0, ()))[0]

    def _tell_again(self, path: Path, opened: OpenedFile) -> None:
        try:
            text = text_of(path, self._root)
        except NoAnswer:
            text = None
        if text is None:
            self._client.text_document_did_close(types.DidCloseTextDocumentParams(text_document=_document(path)))
            del self._opened[path]
        elif text != opened.text:
            self._opened[path] = OpenedFile(opened.version + 1, text, self._heard(path))
            params = types.DidChangeTextDocumentParams(
                text_document=types.VersionedTextDocumentIdentifier(uri=path.as_uri(), version=opened.version + 1),
                content_changes=[types.TextDocumentContentChangeWholeDocument(text=text)],
            )
            self._client.text_document_did_change(params)

    async def _answered(self, answer: Awaitable[T]) -> T:
        """
        Raises:
            Gone: there is nobody left to answer.
            NoAnswer: the server would not.
        """
        asked = asyncio.ensure_future(answer)
        try:
            await asyncio.wait({asked, self._listening}, return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                raise Gone
            return asked.result()
        except JsonRpcException as refused:
            raise NoAnswer(f"{self._server.name} says: {refused.message}") from refused
        finally:
            asked.cancel()

    def _take_findings(self, params: types.PublishDiagnosticsParams) -> None:
        path = wire.path_of(params.uri)
        opened = self._opened.get(path) if path is not None else None
        if path is None or (opened is not None and params.version is not None and params.version < opened.version):
            return
        self._published[path] = (self._heard(path) + 1, wire.findings(params.diagnostics, path))
        self._wake()

    def _take_announcement(self, params: types.WorkDoneProgressCreateParams) -> None:
        """It is about to begin with something; if it does not soon, it does not count."""
        self.works_begun += 1
        self._busy.add(params.token)
        self._expected.add(params.token)
        asyncio.get_running_loop().call_later(_BEGIN_S, self._no_longer_expect, params.token)

    def _no_longer_expect(self, token: str | int) -> None:
        if token in self._expected:
            self._expected.discard(token)
            self._busy.discard(token)
            self._wake()

    def _take_progress(self, params: types.ProgressParams) -> None:
        self._expected.discard(params.token)
        if _kind(params.value) == "end":
            self._busy.discard(params.token)
        else:
            self._busy.add(params.token)
        self._wake()

    def _take_registrations(self, params: types.RegistrationParams) -> None:
        """Servers may say later what they can do."""
        self._pulls = self._pulls or any(each.method == "textDocument/diagnostic" for each in params.registrations)

    async def _until(self, so: Callable[[], bool]) -> None:
        while not so():
            if self._listening.done():
                raise Gone
            await self._news.wait()

    def _wake(self) -> None:
        """Whoever waits for something looks whether it is so now."""
        self._news.set()
        self._news = asyncio.Event()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Ends when the server does, or when it says what is no message."""
        with contextlib.suppress(Exception):
            await run_async(stop_event=threading.Event(), reader=reader, protocol=self._client.protocol)
        asyncio.get_running_loop().call_soon(self._wake)


def _client(server: LanguageServer) -> LanguageClient:
    """Answers what servers ask of an editor."""
    client = LanguageClient("forgepool", "1")

    def configuration(params: types.ConfigurationParams) -> list[JsonValue]:
        return [_section(server.settings, each.section or "") for each in params.items]

    client.feature(types.WORKSPACE_CONFIGURATION)(configuration)
    client.feature(types.CLIENT_UNREGISTER_CAPABILITY)(lambda params: None)
    return client


def _section(settings: Mapping[str, JsonValue], name: str) -> JsonValue:
    """A part of the settings, by a name with dots."""
    here: JsonValue = dict(settings)
    for part in filter(None, name.split(".")):
        here = here.get(part) if isinstance(here, dict) else None
    return here


def _kind(value: object) -> object:
    """A progress report is of no type the protocol's types know."""
    return value.get("kind") if isinstance(value, Mapping) else getattr(value, "kind", None)


def _document(path: Path) -> types.TextDocumentIdentifier:
    return types.TextDocumentIdentifier(uri=path.as_uri())
