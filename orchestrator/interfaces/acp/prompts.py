"""Find the plan in a prompt: a linked or embedded file, a path in the text, or the plan itself."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from acp.schema import (
    AudioContentBlock,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from forgepool.orchestrator.interfaces.clients.results import clean, shorten
from forgepool.orchestrator.run.hub import CannotRun

Block = TextContentBlock | ImageContentBlock | AudioContentBlock | ResourceContentBlock | EmbeddedResourceContentBlock
_TASKS = re.compile(r"""^tasks\s*:|"tasks"\s*:""", re.MULTILINE)
_FENCED = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"""[^\s`'"()<>,;]+\.(?:ya?ml|json)\b""")
_MOST_BYTES = 4_000_000


def prompt_text(prompt: Sequence[Block]) -> str:
    """Return what the person wrote, without links and files."""
    return "\n".join(block.text for block in prompt if isinstance(block, TextContentBlock)).strip()


def find_plan(prompt: Sequence[Block], folder: Path, *, answers: bool = False) -> str | None:
    """
    Return the absolute path of the prompt's plan, or the plan's text; None where it has none.

    In a prompt that answers a question, words about a file are no plan: one must be linked, or fenced.

    Raises:
        CannotRun: it has several.
    """
    found = list(dict.fromkeys(_plans(prompt, folder, answers=answers)))
    if len(found) > 1:
        raise CannotRun(f"the prompt has {len(found)} plans; give one")
    return found[0] if found else None


def _plans(prompt: Sequence[Block], folder: Path, *, answers: bool) -> Iterator[str]:
    for block in prompt:
        match block:
            case ResourceContentBlock(uri=uri):
                yield from _of_file(_path(uri))
            case EmbeddedResourceContentBlock(resource=TextResourceContents(uri=uri, text=text)) if _is_plan(text):
                # The editor's text may not be saved yet; a saved one has its scripts beside it.
                path = _path(uri)
                yield str(path) if path is not None and _read(path) == text else _as_text(text)
            case TextContentBlock(text=text):
                yield from _of_text(text, folder, answers=answers)


def _of_text(text: str, folder: Path, *, answers: bool) -> Iterator[str]:
    fenced = [part for part in _FENCED.findall(text) if _is_plan(part)]
    if fenced or answers:
        yield from map(_as_text, fenced)
    elif _is_plan(text):
        yield _as_text(text)
    else:
        for name in _NAMED.findall(text):
            yield from _of_file(_named(name.removeprefix("@"), folder))


def _named(name: str, folder: Path) -> Path | None:
    try:
        return folder / Path(name).expanduser()
    except RuntimeError:
        return None  # ~ of a user who does not exist


def _of_file(path: Path | None) -> Iterator[str]:
    if path is not None and path.suffix in (".yaml", ".yml", ".json") and _is_plan(_read(path)):
        yield str(path.resolve())


def _path(uri: str) -> Path | None:
    try:
        parts = urlsplit(uri)
    except ValueError as wrong:
        raise CannotRun(f"the link '{shorten(clean(uri), 80)}' is no address; link a file") from wrong
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def _read(path: Path) -> str:
    """Return a file's text; of what is no readable file, or far too large, nothing."""
    try:
        return path.read_text(encoding="utf-8") if path.is_file() and path.stat().st_size < _MOST_BYTES else ""
    except (OSError, ValueError):
        return ""


def _is_plan(text: str) -> bool:
    return _TASKS.search(text) is not None


def _as_text(text: str) -> str:
    """Return a text that is never taken for a path."""
    return text if text.endswith("\n") else f"{text}\n"
