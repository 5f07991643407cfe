"""
Where the hunks of a patch belong in a text, and the text with them in place. Pure: nothing is read or written.

A line that stays keeps its bytes, whatever the patch has in its place; a line that comes ends as its neighbours do.
"""

from collections.abc import Sequence

from forgepool.workers.tools.files.near import near_miss
from forgepool.workers.tools.files.patches.patch import PatchHunk
from forgepool.workers.tools.files.text_file import show_text
from forgepool.workers.tools.refusal import ToolRefused

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
