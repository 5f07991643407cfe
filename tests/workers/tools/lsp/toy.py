"""
A language server for a toy language, with faults: `toy.py FAULT NOTES`.

`def NAME` on a line defines a name; the word `bug` is an error, `smell` a warning, `hint` a hint. It writes what it is
told and what it sees into the file NOTES, one JSON value a line.
"""

import asyncio
import json
import os
import re
import sys
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer

FAULT, NOTES = sys.argv[1], Path(sys.argv[2])
server = LanguageServer("toy", "1")


def note(**said: object) -> None:
    with NOTES.open("a") as file:
        file.write(json.dumps(said) + "\n")


def places(uri: str, word: str) -> list[types.Range]:
    lines = server.workspace.get_text_document(uri).source.splitlines()
    found = [(number, each) for number, line in enumerate(lines) for each in re.finditer(rf"\b{word}\b", line)]
    return [
        types.Range(*(types.Position(number, column(each.string[:at])) for at in each.span())) for number, each in found
    ]


def column(before: str) -> int:
    return len(before.encode("utf-16-le", "surrogatepass")) // 2


def word_at(uri: str, position: types.Position) -> str:
    return server.workspace.get_text_document(uri).word_at_position(position)


def publish(uri: str, version: int | None) -> None:
    kinds = {"bug": 1, "smell": 2, "hint": 4}
    found = [
        types.Diagnostic(
            range=place, message=f"a {word}\n here", severity=types.DiagnosticSeverity(severity), code=word
        )
        for word, severity in kinds.items()
        for place in places(uri, word)
    ]
    server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, version))


@server.feature(types.INITIALIZED)
async def initialized(params: types.InitializedParams) -> None:
    note(env=sorted(os.environ), parent=os.getppid(), pid=os.getpid(), cwd=str(Path.cwd()))
    if FAULT == "busy":
        await server.work_done_progress.create_async("t")
        server.work_done_progress.begin("t", types.WorkDoneProgressBegin(title="reading"))
        await asyncio.sleep(0.3)
        note(read=True)
        server.work_done_progress.end("t", types.WorkDoneProgressEnd())
    if FAULT == "asks":
        items = [types.ConfigurationItem(section="toy.depth"), types.ConfigurationItem(section="other")]
        note(settings=list(await server.workspace_configuration_async(types.ConfigurationParams(items))))


@server.feature(types.TEXT_DOCUMENT_DID_OPEN)
def opened(params: types.DidOpenTextDocumentParams) -> None:
    note(opened=Path(params.text_document.uri).name, language=params.text_document.language_id)
    publish(params.text_document.uri, params.text_document.version)


@server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
def changed(params: types.DidChangeTextDocumentParams) -> None:
    publish(params.text_document.uri, params.text_document.version)


@server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
def closed(params: types.DidCloseTextDocumentParams) -> None:
    note(closed=Path(params.text_document.uri).name)


@server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
def watched(params: types.DidChangeWatchedFilesParams) -> None:
    note(watched=sorted([Path(each.uri).name, types.FileChangeType(each.type).name] for each in params.changes))


@server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
def symbols(params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    source = server.workspace.get_text_document(params.text_document.uri).source
    found = []
    for number, line in enumerate(source.splitlines()):
        if line.startswith("def "):
            whole = types.Range(types.Position(number, 0), types.Position(number, len(line)))
            found.append(types.DocumentSymbol(line[4:], types.SymbolKind.Function, whole, whole))
    return found


@server.feature(types.TEXT_DOCUMENT_REFERENCES)
async def references(params: types.ReferenceParams) -> list[types.Location]:
    if FAULT == "crash" or (FAULT == "crash once" and not NOTES.with_suffix(".crashed").exists()):
        NOTES.with_suffix(".crashed").touch()
        sys.stderr.write("toy: out of ideas\n")
        sys.stderr.flush()
        os._exit(3)
    if FAULT == "hang":
        await asyncio.Event().wait()
    if FAULT == "garbage":
        os.write(1, b"Content-Length: 7\r\n\r\nnot so\n" + b"x" * 100)
        os._exit(0)
    uri = params.text_document.uri
    found = [types.Location(uri, place) for place in places(uri, word_at(uri, params.position))]
    if FAULT == "leads out":
        found.append(types.Location(uri.rpartition("/")[0] + "/leak.toy", found[0].range))
    return found


@server.feature(types.TEXT_DOCUMENT_RENAME)
def rename(params: types.RenameParams) -> types.WorkspaceEdit:
    uri = params.text_document.uri
    found = places(uri, word_at(uri, params.position))
    changes = {uri: [types.TextEdit(place, params.new_name) for place in found]}
    first = types.Range(types.Position(0, 0), types.Position(0, 1))
    match params.new_name:
        case "outside":
            changes["file:///etc/passwd"] = [types.TextEdit(first, "x")]
        case "twice":
            changes[uri] *= 2
        case "inside_git":
            changes[uri.rpartition("/")[0] + "/.git/config"] = [types.TextEdit(first, "x")]
        case "folder":
            changes[uri.rpartition("/")[0] + "/folder.toy"] = [types.TextEdit(first, "x")]
        case "moved":
            moves = types.RenameFile(old_uri=uri, new_uri=uri + "2")
            return types.WorkspaceEdit(document_changes=[moves])
    return types.WorkspaceEdit(changes=changes)


if FAULT == "dead":
    sys.exit("toy: cannot start here")
if FAULT == "pulls":

    @server.feature(types.TEXT_DOCUMENT_DIAGNOSTIC)
    def pulled(params: types.DocumentDiagnosticParams) -> types.RelatedFullDocumentDiagnosticReport:
        place = types.Range(types.Position(0, 0), types.Position(0, 1))
        return types.RelatedFullDocumentDiagnosticReport(items=[types.Diagnostic(range=place, message="asked for")])


server.start_io()
