"""Tells which lines a program shows of its files, where its words say so."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from forgepool.workers.shell.language.script import ShellWord
from forgepool.workers.shell.purpose.file_access import Read
from forgepool.workers.shell.purpose.invocations import Invocation

_COUNT = re.compile(r"(?:-n|--lines=?)?([-+]?\d+)")
_SED_VALUED = ("-e", "--expression", "-f", "--file", "-l")
_SED_PRINTS = re.compile(r"(\d+)(?:,(\+?\d+|\$))?p")
_SED_QUITS = re.compile(r"(\d+)q")
_SED_KEEPS = re.compile(r"(\d+)(?:,(\d+|\$))?!d")
_SED_DROPS = re.compile(r"(\d+)(?:,(\d+|\$))?d")
_AWK_FROM_TO = re.compile(r"NR\s*(>=?)\s*(\d+)\s*&&\s*NR\s*(<=?)\s*(\d+)\s*(?:\{.*\})?", re.DOTALL)
_AWK_RANGE = re.compile(r"NR\s*==\s*(\d+)\s*(?:,\s*NR\s*==\s*(\d+))?\s*(?:\{.*\})?", re.DOTALL)
_AWK_ALL = re.compile(r"1|\{\s*print[^{}|>]*\$0[^{}|>]*\}", re.DOTALL)
_PAGERS = frozenset(["cat", "nl", "less", "more", "bat", "batcat", "tee"])
_VALUED: Mapping[str, tuple[str, ...]] = {
    "nl": ("-b", "-w", "-s", "-n", "-v", "-i", "-f", "-h", "-d", "-l"),
    "bat": ("-r", "--line-range", "-l", "--language", "--style", "--color", "--paging"),
    "head": ("-n", "-c", "--lines", "--bytes"),
    "tail": ("-n", "-c", "--lines", "--bytes", "-s", "--pid"),
    "sed": _SED_VALUED,
    "awk": ("-F", "-v", "-f"),
    "gawk": ("-F", "-v", "-f"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LineStretch:
    """Lines of an input: from `first` to `last`, or the last `ending` of them."""

    first: int = 1
    last: int | None = None
    ending: int | None = None
    unknown: bool = False
    """Unknown lines, or lines that are changed."""


_ALL = (LineStretch(),)
_SOME = (LineStretch(unknown=True),)


def reads(call: Invocation, given: Sequence[Read]) -> tuple[Read, ...]:
    """Return what an invocation shows of files; `given` is what it is fed."""
    shower = _SHOWERS.get(call.program)
    if shower is None:
        return ()
    stretches, operands = shower(call)
    if call.program == "tee" or not operands:
        files = [name for file in call.opened if file.mode == "read" for name in file.names]
        given = [Read(path=name) for name in files] or given
        return narrow_reads(given, stretches)
    whole = [Read(path=path) for path in operands if path not in ("", "-")]
    if call.program in ("head", "tail"):
        return tuple(read for each in whole for read in narrow_reads([each], stretches))
    return narrow_reads(whole, stretches)


def narrow_reads(given: Sequence[Read], stretches: Sequence[LineStretch]) -> tuple[Read, ...]:
    """Narrow reads to some of their lines. Which lines of several joined files are left is unknown."""
    if len(given) > 1 and tuple(stretches) != _ALL:
        return tuple(replace(read, first=None, last=None, part=True) for read in given)
    found = [_narrowed(read, stretch) for read in given for stretch in stretches]
    return tuple(dict.fromkeys(read for read in found if read is not None))


def _narrowed(read: Read, stretch: LineStretch) -> Read | None:
    if read.part or stretch == LineStretch():
        return read
    if stretch.unknown or (stretch.ending is not None and read.last is None):
        return replace(read, part=True) if not read.whole else Read(path=read.path, part=True)
    start = read.first or 1
    if stretch.ending is not None and read.last is not None:
        return replace(read, first=max(start, read.last - stretch.ending + 1))
    ends = [end for end in (read.last, start + stretch.last - 1 if stretch.last else None) if end is not None]
    first, last = start + stretch.first - 1, min(ends, default=None)
    return None if last is not None and last < first else replace(read, first=first, last=last)


_Shown = tuple[Sequence[LineStretch], tuple[str, ...]]


def _head(call: Invocation) -> _Shown:
    count = _count(call)
    if count is None:
        return _SOME, _operands(call)
    return ((LineStretch(last=count),) if count > 0 else _SOME), _operands(call)


def _tail(call: Invocation) -> _Shown:
    texts = _texts(call)
    plus = any(re.fullmatch(r"(?:-n|--lines=)?\+\d+", text) for text in texts)
    count = _count(call)
    if count is None:
        return _SOME, _operands(call)
    return (LineStretch(first=max(1, count)) if plus else LineStretch(ending=abs(count)),), _operands(call)


def _count(call: Invocation) -> int | None:
    """Return how many lines `head` or `tail` shows; None where it counts characters."""
    texts = _texts(call)
    if any(re.match(r"-[qvz]*c|--bytes", text) for text in texts):
        return None
    for at, text in enumerate(texts):
        if text in ("-n", "--lines") and at + 1 < len(texts) and re.fullmatch(r"[-+]?\d+", texts[at + 1]):
            return int(texts[at + 1])
        if (found := _COUNT.fullmatch(text)) and text[0] in "-+":
            return abs(int(found[1])) if not text.startswith(("-n", "--lines")) else int(found[1])
    return 10


def _sed(call: Invocation) -> _Shown:
    texts, operands = _texts(call), _operands(call)
    if any(re.match(r"-[nErsuz]*i|--in-place", text) for text in texts):
        return _SOME, ()
    scripts = [texts[at + 1] for at, text in enumerate(texts[:-1]) if re.fullmatch(r"-[nErsz]*e|--expression", text)]
    scripts += [text.partition("=")[2] for text in texts if text.startswith("--expression=")]
    if not scripts:
        scripts, operands = [_first_operand(call)], operands[1:]
    quiet = any(re.fullmatch(r"-[Ersuz]*n[Ersuze]*|--quiet|--silent", text) for text in texts)
    return _sed_lines(";".join(scripts), quiet=quiet), operands


def _sed_lines(script: str, *, quiet: bool) -> Sequence[LineStretch]:
    plain = re.sub(r"\{\s*(?:=\s*;\s*p|p\s*;\s*=|p)\s*;?\s*\}", "p", script)
    parts = [part for each in re.split(r"[;\n]", plain) if (part := each.replace(" ", "")) and part not in ("=",)]
    found = [_sed_part(part, quiet=quiet) for part in parts]
    if not found:
        return _SOME if quiet else _ALL
    if quiet and len(found) > 1:
        found = [each for part, each in zip(parts, found, strict=True) if not _SED_QUITS.fullmatch(part)]
    elif len(found) > 1:
        return _SOME
    return _SOME if any(each.unknown for each in found) else tuple(found)


def _sed_part(part: str, *, quiet: bool) -> LineStretch:
    if quiet and (found := _SED_PRINTS.fullmatch(part)):
        first, second = int(found[1]), found[2]
        if second is None:
            return LineStretch(first=first, last=first)
        if second == "$":
            return LineStretch(first=first)
        return LineStretch(first=first, last=first + int(second) if second[0] == "+" else max(first, int(second)))
    if found := _SED_QUITS.fullmatch(part):
        return LineStretch(last=int(found[1]))
    if not quiet and (found := _SED_KEEPS.fullmatch(part)):
        return LineStretch(first=int(found[1]), last=None if found[2] == "$" else int(found[2] or found[1]))
    if not quiet and (found := _SED_DROPS.fullmatch(part)):
        if found[2] == "$" and int(found[1]) > 1:
            return LineStretch(last=int(found[1]) - 1)
        if found[1] == "1" and found[2] != "$":
            return LineStretch(first=int(found[2] or 1) + 1)
    return LineStretch(unknown=True)


def _awk(call: Invocation) -> _Shown:
    script, operands = _first_operand(call).strip(), _operands(call)[1:]
    if found := _AWK_FROM_TO.fullmatch(script):
        first = int(found[2]) + (found[1] == ">")
        return (LineStretch(first=first, last=int(found[4]) - (found[3] == "<")),), operands
    if found := _AWK_RANGE.fullmatch(script):
        return (LineStretch(first=int(found[1]), last=int(found[2] or found[1])),), operands
    return (_ALL if _AWK_ALL.fullmatch(script) else _SOME), operands


def _bat(call: Invocation) -> _Shown:
    for at, text in enumerate(texts := _texts(call)):
        span = texts[at + 1] if text in ("-r", "--line-range") and at + 1 < len(texts) else text.partition("=")[2]
        if found := re.fullmatch(r"(\d*):(\d*)", span):
            return (LineStretch(first=int(found[1] or 1), last=int(found[2]) if found[2] else None),), _operands(call)
    return _ALL, _operands(call)


_SHOWERS: Mapping[str, Callable[[Invocation], _Shown]] = {
    **dict.fromkeys(_PAGERS, lambda call: (_ALL, _operands(call))),
    "bat": _bat,
    "batcat": _bat,
    "head": _head,
    "tail": _tail,
    "sed": _sed,
    "awk": _awk,
    "gawk": _awk,
}


def _texts(call: Invocation) -> list[str]:
    return [word.shown for word in call.arguments]


def _plain_words(call: Invocation) -> Iterator[ShellWord]:
    """Yield the arguments that are neither options nor values of options."""
    words = iter(call.arguments)
    for word in words:
        if not (len(word.text) > 1 and word.text[0] == "-"):
            yield word
        elif word.text in _VALUED.get(call.program, ()):
            next(words, None)


def _first_operand(call: Invocation) -> str:
    return next((word.shown for word in _plain_words(call)), "")


def _operands(call: Invocation) -> tuple[str, ...]:
    """Return the files it names, "" for those that only the shell knows; a script among them keeps its place."""
    words = (w for w in _plain_words(call) if not (call.program == "tail" and re.fullmatch(r"\+\d+", w.text)))
    return tuple(name for word in words for name in call.names(word) or ("",))
