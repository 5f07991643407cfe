"""
The protocol's forms made into answers of ours, and what we tell a server of ourselves.

Imported with the first question: the protocol's types are heavy.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from lsprotocol import types

from forgepool.workers.tools.config import LanguageServer
from forgepool.workers.tools.lsp.documents import Diagnostic, Edits, NoAnswer, Reference, Spot, Symbol, TextChange

_TextEdit = types.TextEdit | types.AnnotatedTextEdit | types.SnippetTextEdit


def introduction(server: LanguageServer, root: Path) -> types.InitializeParams:
    """What a server is told first: the worktree, and what we understand."""
    documents = types.TextDocumentClientCapabilities(
        synchronization=types.TextDocumentSyncClientCapabilities(),
        references=types.ReferenceClientCapabilities(),
        rename=types.RenameClientCapabilities(),
        document_symbol=types.DocumentSymbolClientCapabilities(hierarchical_document_symbol_support=True),
        publish_diagnostics=types.PublishDiagnosticsClientCapabilities(version_support=True),
        diagnostic=types.DiagnosticClientCapabilities(),
    )
    workspace = types.WorkspaceClientCapabilities(
        workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=True),
        did_change_watched_files=types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True),
        symbol=types.WorkspaceSymbolClientCapabilities(),
        configuration=True,
        workspace_folders=True,
    )
    return types.InitializeParams(
        process_id=os.getpid(),
        root_uri=root.as_uri(),
        workspace_folders=[types.WorkspaceFolder(uri=root.as_uri(), name=root.name)],
        initialization_options=dict(server.initialization) or None,
        capabilities=types.ClientCapabilities(
            text_document=documents,
            workspace=workspace,
            window=types.WindowClientCapabilities(work_done_progress=True),
            general=types.GeneralClientCapabilities(position_encodings=[types.PositionEncodingKind.Utf16]),
        ),
    )


def path_of(uri: str) -> Path | None:
    """The file an address means; None when it means none."""
    parts = urlsplit(uri)
    return Path(unquote(parts.path, errors="surrogateescape")) if parts.scheme == "file" and parts.path else None


def workspace_symbols(
    found: Sequence[types.SymbolInformation] | Sequence[types.WorkspaceSymbol] | None,
) -> Iterator[Symbol]:
    for each in found or ():
        path = path_of(each.location.uri)
        if path is not None:
            line = each.location.range.start.line if isinstance(each.location, types.Location) else 0
            yield _symbol(each, each.container_name or "", path, line)


def document_symbols(
    found: Sequence[types.DocumentSymbol] | Sequence[types.SymbolInformation] | None, path: Path
) -> Iterator[Symbol]:
    """All of them, at every depth."""
    waiting: list[tuple[types.DocumentSymbol | types.SymbolInformation, str]] = [(each, "") for each in found or ()]
    while waiting:
        each, container = waiting.pop(0)
        if isinstance(each, types.DocumentSymbol):
            yield _symbol(each, container, path, each.selection_range.start.line)
            waiting += [(child, each.name) for child in each.children or ()]
        else:
            yield _symbol(each, each.container_name or "", path, each.location.range.start.line)


def _symbol(
    found: types.DocumentSymbol | types.SymbolInformation | types.WorkspaceSymbol, container: str, path: Path, line: int
) -> Symbol:
    kind = found.kind.name.lower() if isinstance(found.kind, types.SymbolKind) else "symbol"
    return Symbol(name=found.name, kind=kind, container=container, path=path, line=line)


def references(found: Sequence[types.Location] | None) -> tuple[Reference, ...]:
    places = {
        Reference(path, each.range.start.line, each.range.start.character)
        for each in found or ()
        if (path := path_of(each.uri)) is not None
    }
    return tuple(sorted(places))


def findings(found: Sequence[types.Diagnostic], path: Path) -> tuple[Diagnostic, ...]:
    """Errors and warnings; hints and remarks are left out. Of unknown severity is an error."""
    severities: dict[types.DiagnosticSeverity | None, Literal["error", "warning"]] = {
        None: "error",
        types.DiagnosticSeverity.Error: "error",
        types.DiagnosticSeverity.Warning: "warning",
    }
    return tuple(
        Diagnostic(
            path=path,
            line=each.range.start.line,
            column=each.range.start.character,
            severity=severities[each.severity],
            message=f"{each.message}{f' [{each.code}]' if each.code else ''}",
        )
        for each in found
        if each.severity in severities
    )


def edits(found: types.WorkspaceEdit | None) -> Edits:
    """
    Raises:
        NoAnswer: files would have to be made, moved or removed, or something else than a file changed.
    """
    by_path: dict[Path, tuple[TextChange, ...]] = {}
    for uri, changes in _edited(found):
        path = path_of(uri)
        if path is None:
            raise NoAnswer(f"it would change {uri}, which is no file; edit by hand")
        by_path[path] = by_path.get(path, ()) + tuple(_change(each) for each in changes)
    return by_path


def _edited(found: types.WorkspaceEdit | None) -> Iterator[tuple[str, Sequence[_TextEdit]]]:
    if found is None:
        return
    if found.document_changes is None:
        yield from (found.changes or {}).items()
        return
    for each in found.document_changes:
        if not isinstance(each, types.TextDocumentEdit):
            raise NoAnswer("it would make, move or remove files as well; edit by hand")
        yield each.text_document.uri, each.edits


def _change(edit: _TextEdit) -> TextChange:
    if isinstance(edit, types.SnippetTextEdit):
        raise NoAnswer("it would put in a snippet, which needs a person; edit by hand")
    start, end = edit.range.start, edit.range.end
    return TextChange(Spot(start.line, start.character), Spot(end.line, end.character), edit.new_text)
