"""
`apply_patch`: several files added, changed, moved or deleted at once, or none of them. For models that were taught it.
"""

import contextlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import Field

from forgepool.workers.tools.files.edit import near_miss
from forgepool.workers.tools.files.patch import Add, Delete, PatchHunk, Update, read_patch
from forgepool.workers.tools.files.text_file import (
    MAX_BYTES,
    read_text,
    require_encodable,
    show_text,
    write_bytes,
    write_text,
)
from forgepool.workers.tools.tool import Arguments, ToolAnswer, make_typed_tool
from forgepool.workers.tools.workplace import ToolRefused, Workplace

_BOM = "\ufeff"
_MOST_NAMED = 5


def apply_hunks(name: str, text: str, hunks: Sequence[PatchHunk]) -> str:
    """
    The text with every hunk in its place.

    Raises:
        Refused: one does not fit, or fits in several places; the sentence names file and hunk.
    """
    mark = _BOM if text.startswith(_BOM) else ""
    raw = text.removeprefix(mark).split("\n")
    plain = [line.rstrip() for line in show_text(text).split("\n")]
    ended = raw[-1] == ""
    if ended:
        raw, plain = raw[:-1], plain[:-1]
    # A last line without its end gets one while lines may come after it, and loses it again.
    lent = "\r" if not ended and len(raw) > 1 and raw[-2].endswith("\r") else ""
    raw[-1:] = [line + lent for line in raw[-1:]]
    out: list[str] = []
    done = 0
    for hunk in hunks:
        start = _place(name, plain, hunk, done)
        out += raw[done:start]
        out += _replaced(raw, start, hunk)
        done = start + len(hunk.old)
    out += raw[done:]
    return mark + "\n".join(out).removesuffix(lent) + ("\n" if ended and out else "")


def _replaced(raw: Sequence[str], start: int, hunk: PatchHunk) -> list[str]:
    """The hunk's lines as the file has them; those that come end as the line beside them."""
    out: list[str] = []
    at = start
    for mark, line in hunk.lines:
        if mark == "+":
            beside = raw[max(at - 1, 0)] if raw else ""
            out.append(f"{line}\r" if beside.endswith("\r") else line)
            continue
        if mark == " ":
            out.append(raw[at])
        at += 1
    return out


def _place(name: str, plain: Sequence[str], hunk: PatchHunk, done: int) -> int:
    """The index of the hunk's first line, not before `done`."""
    start = _below_anchors(name, plain, hunk, done)
    old = [line.rstrip() for line in show_text("\n".join(hunk.old)).split("\n")] if hunk.old else []
    if not old:
        return start if hunk.anchors and not hunk.at_end else len(plain)
    if hunk.at_end:
        places = [len(plain) - len(old)] if list(plain[-len(old) :]) == old and len(plain) - len(old) >= start else []
    else:
        places = _places(plain, old, start)
    if not places:
        raise ToolRefused(f"{name}, hunk {hunk.number}: {_why_not(plain, old, hunk, done)}")
    if len(places) > 1 and not hunk.anchors:
        where = ", ".join(str(place + 1) for place in places[:_MOST_NAMED])
        more = ", ..." if len(places) > _MOST_NAMED else ""
        raise ToolRefused(
            f"{name}, hunk {hunk.number}: fits in {len(places)} places (lines {where}{more}); "
            "give more context, or an @@ line with a line above it"
        )
    return places[0]


def _below_anchors(name: str, plain: Sequence[str], hunk: PatchHunk, done: int) -> int:
    """The index from which the hunk is looked for. A first anchor may stand above the hunk before: its class, say."""
    at = done
    for number, anchor in enumerate(hunk.anchors):
        found = _line(plain, anchor, at)
        if found is None and number == 0:
            found = _line(plain, anchor, 0)
        if found is None:
            elsewhere = near_miss("\n".join(plain), anchor.strip())
            raise ToolRefused(
                f"{name}, hunk {hunk.number}: its @@ line {anchor.strip()[:80]!r} is not in the file{elsewhere}"
            )
        if (again := _line(plain, anchor, found + 1)) is not None and _is_open(plain, hunk, number, found, again):
            raise ToolRefused(
                f"{name}, hunk {hunk.number}: its @@ line {anchor.strip()[:80]!r} stands in several places "
                f"(lines {found + 1}, {again + 1}), and the hunk fits below each; "
                "give more context, or an @@ line above it"
            )
        at = max(done, found + 1)
    return at


def _is_open(plain: Sequence[str], hunk: PatchHunk, number: int, found: int, again: int) -> bool:
    """Whether the last anchor leaves open which of its places is meant: the hunk fits below the first and the next."""
    if number < len(hunk.anchors) - 1 or hunk.at_end:
        return False
    old = [line.rstrip() for line in show_text("\n".join(hunk.old)).split("\n")] if hunk.old else []
    if not old:
        return True
    places = _places(plain, old, found + 1)
    return any(place <= again for place in places) and any(place > again for place in places)


def _line(plain: Sequence[str], anchor: str, start: int) -> int | None:
    wanted = anchor.strip()
    return next((at for at in range(start, len(plain)) if plain[at].strip() == wanted), None)


def _places(plain: Sequence[str], old: Sequence[str], start: int) -> list[int]:
    size = len(old)
    first = (at for at in range(start, len(plain) - size + 1) if plain[at] == old[0])
    return [at for at in first if list(plain[at : at + size]) == list(old)]


def _why_not(plain: Sequence[str], old: Sequence[str], hunk: PatchHunk, done: int) -> str:
    if elsewhere := _places(plain, old, 0):
        line = elsewhere[0] + 1
        if hunk.at_end:
            return f"its old lines are at line {line}, not at the end of the file; leave out '*** End of File'"
        if elsewhere[0] < done:
            return f"its old lines are at line {line}, before the end of the hunk above; give hunks in the file's order"
        return f"its old lines are at line {line}, above its @@ line; give a line above them"
    return "its old lines are not in the file" + near_miss("\n".join(plain), "\n".join(old))


class ApplyPatch(Arguments):
    input: str = Field(description="the patch, from *** Begin Patch to *** End Patch")


@dataclass(slots=True)
class _Draft:
    """What the files will be. The disk is only read."""

    texts: dict[Path, str | None] = field(default_factory=dict)
    """Each changed path with its text; None where there will be no file."""
    modes: dict[Path, int] = field(default_factory=dict)
    """Permissions that a moved file brings along."""
    done: list[str] = field(default_factory=list)
    """Lines of the receipt."""


def apply_patch(arguments: ApplyPatch, workplace: Workplace) -> ToolAnswer:
    draft = _Draft()
    for change in read_patch(arguments.input):
        match change:
            case Add():
                _add(change, draft, workplace)
            case Delete():
                _delete(change, draft, workplace)
            case Update():
                _update(change, draft, workplace)
    _write(draft, workplace)
    files = "1 file" if len(draft.done) == 1 else f"{len(draft.done)} files"
    return ToolAnswer(text="\n".join([f"OK: patched {files} (iter {workplace.iteration})", *draft.done]))


def _add(change: Add, draft: _Draft, workplace: Workplace) -> None:
    path = workplace.path(change.path)
    if _is_there(path, draft):
        raise ToolRefused(f"{change.path}: is there already; use '*** Update File: {change.path}'")
    draft.texts[path] = change.content
    draft.done.append(f"A {workplace.name(path)}")


def _delete(change: Delete, draft: _Draft, workplace: Workplace) -> None:
    path = _own_path(change.path, workplace)
    if not path.is_symlink() and not path.is_file():
        _text(change.path, path, draft, workplace)  # says why not
    draft.texts[path] = None
    draft.done.append(f"D {workplace.name(path)}")


def _update(change: Update, draft: _Draft, workplace: Workplace) -> None:
    path = workplace.path(change.path)
    text = _text(change.path, path, draft, workplace)
    new = _fitted(change.path, text, change.hunks)
    if change.moved_to is None:
        if new == text:
            raise ToolRefused(f"{change.path}: the patch leaves it as it is; nothing to do")
        draft.texts[path] = new
        draft.done.append(f"M {workplace.name(path)}")
        return
    target = workplace.path(change.moved_to)
    if _own_path(change.path, workplace) != path:
        raise ToolRefused(f"{change.path}: is a link; move {workplace.name(path)} itself")
    if _is_there(target, draft):
        raise ToolRefused(f"{change.moved_to}: is there already; move {change.path} to a path that is free")
    draft.texts |= {path: None, target: new}
    if path.exists():
        draft.modes[target] = stat.S_IMODE(path.stat().st_mode)
    draft.done.append(f"R {workplace.name(path)} -> {workplace.name(target)}")


def _fitted(name: str, text: str, hunks: Sequence[PatchHunk]) -> str:
    for mark, line in (each for hunk in hunks for each in hunk.lines):
        if mark == "+":
            require_encodable(line, text, name)
    return apply_hunks(name, text, hunks) if hunks else text


def _text(asked: str, path: Path, draft: _Draft, workplace: Workplace) -> str:
    if path not in draft.texts:
        return read_text(path, asked, workplace)
    text = draft.texts[path]
    if text is None:
        raise ToolRefused(f"{asked}: the patch has removed it further up; change it before")
    return text


def _is_there(path: Path, draft: _Draft) -> bool:
    return draft.texts[path] is not None if path in draft.texts else path.exists()


def _own_path(asked: str, workplace: Workplace) -> Path:
    """The path itself where it is a link: what is removed is the link, never what it leads to."""
    real = workplace.path(asked)
    whole = workplace.root / asked
    own = workplace.path(str(whole.parent)) / whole.name
    return own if own.is_symlink() else real


@dataclass(frozen=True, slots=True, kw_only=True)
class _Before:
    """What a path was, to be put back."""

    path: Path
    kind: Literal["file", "link", "nothing"]
    content: bytes = b""
    mode: int = 0


def _write(draft: _Draft, workplace: Workplace) -> None:
    """All of it, or, when the disk fails half way, nothing."""
    before = [_before(path, workplace) for path in draft.texts]
    try:
        for path, text in draft.texts.items():
            if text is None:
                folder, below = workplace.open_parent(path)
                folder.remove(below)
            else:
                write_text(path, text, workplace, mode=draft.modes.get(path))
    except BaseException:
        for each in before:
            with contextlib.suppress(OSError, ToolRefused):
                _restore(each, workplace)
        raise


def _before(path: Path, workplace: Workplace) -> _Before:
    folder, below = workplace.open_parent(path)
    state = folder.state(below)
    if state is None:
        return _Before(path=path, kind="nothing")
    if stat.S_ISLNK(state.st_mode):
        with folder.folder(below.parent) as above:
            return _Before(path=path, kind="link", content=os.fsencode(os.readlink(below.name, dir_fd=above)))
    with folder.reading(below) as file:
        content = file.read(MAX_BYTES + 1) or b""
    if len(content) > MAX_BYTES:
        raise ToolRefused(f"{workplace.name(path)}: is too large to be put back if the patch fails; use bash")
    return _Before(path=path, kind="file", content=content, mode=stat.S_IMODE(state.st_mode))


def _restore(was: _Before, workplace: Workplace) -> None:
    folder, below = workplace.open_parent(was.path)
    folder.remove(below)
    match was.kind:
        case "nothing":
            pass
        case "link":
            with folder.folder(below.parent) as above:
                os.symlink(was.content, os.fsencode(below.name), dir_fd=above)
        case "file":
            write_bytes(was.path, was.content, workplace, mode=was.mode)


_SAID = """\
Changes several files at once: all of the patch is applied, or none of it. The form:
*** Begin Patch
*** Update File: src/a.py
*** Move to: src/b.py
@@ class Shelf
 a line that stays
-a line that goes
+a line that comes
*** Add File: src/new.py
+its lines
*** Delete File: src/old.py
*** End Patch
Paths are below the worktree. Move is optional. A hunk needs about three lines that stay above and below its change; \
where they occur more than once, an @@ line names a line above them. Hunks stand in the order of the file."""

APPLY_PATCH = make_typed_tool("apply_patch", _SAID, ApplyPatch, apply_patch, kind="write")
