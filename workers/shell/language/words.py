"""
Turns a word's parts into what the program gets, and judges which words bash evaluates.

Bash evaluates the *values* of variables in arithmetic, and `a[$(rm x)]` can be such a value. So arithmetic may hold
numbers, operators and plain names; `ScriptReading` asks of the whole script whether each name holds a number.
"""

import re
from collections.abc import Iterator
from typing import Literal

from forgepool.workers.shell.language.refusal import refuse
from forgepool.workers.shell.language.script import ShellWord
from forgepool.workers.shell.language.syntax import Elements, Hole, Parts, Region, Token, WordPiece

_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^]]*\])?\+?=")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TILDE = re.compile(r"(?:^|(?<=[=:]))~")
_QUOTED, _HOLE = "\0", "\1"
_SIGNED = re.compile(r"[-+]?[0-9]+", re.ASCII)
_RANGE = re.compile(r"\{-?[0-9]+\.\.-?[0-9]+(?:\.\.-?[0-9]+)?\}", re.ASCII)


def is_plain_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def read_word(token: Token) -> ShellWord:
    """Read an argument, a program's name or a redirection's target."""
    return _read(token.parts, token.raw, expanding=True)


def find_assigned_name(token: Token) -> str | None:
    """Return the variable's name where the word is an assignment, with an index or not."""
    first = token.parts[:1]
    if not first or not isinstance(first[0], WordPiece) or first[0].quoted:
        return None
    found = _ASSIGNED.match(first[0].text)
    return None if found is None else found[1]


def find_assigned_index(token: Token) -> str | None:
    """Return `i` of `name[i]=value`."""
    first = token.parts[0]
    assert isinstance(first, WordPiece)
    found = _ASSIGNED.match(first.text)
    return found[2][1:-1] if found is not None and found[2] else None


def read_assigned_value(token: Token) -> tuple[ShellWord, bool]:
    """Return the assigned value, and whether it is a number for sure."""
    first = token.parts[0]
    assert isinstance(first, WordPiece)
    found = _ASSIGNED.match(first.text)
    assert found is not None
    rest = WordPiece(text=first.text[found.end() :], quoted=False)
    parts = (rest, *token.parts[1:])
    written = token.raw[found.end() :]
    return _read(parts, written, expanding=False), is_number(parts)


def is_array(token: Token) -> bool:
    return any(isinstance(part, Elements) for part in token.parts)


def is_number(parts: Parts) -> bool:
    """Return whether only a number can come of the parts; of an array, of each element."""
    if len(parts) == 2 and isinstance(parts[1], Elements):
        return all(is_number(word) for word in parts[1].words)
    text = "".join(part.text for part in parts if isinstance(part, WordPiece))
    holes = [part for part in parts if not isinstance(part, WordPiece)]
    if not all(isinstance(hole, Hole) and _counts(hole) for hole in holes):
        return False
    return bool(_SIGNED.fullmatch(text) or _RANGE.fullmatch(text) or (not text and len(holes) <= 1))


def _counts(hole: Hole) -> bool:
    if hole.kind == "number":
        return True
    if hole.region is None or hole.kind != "command":
        return False
    raws = [token.raw for token in hole.region.tokens]
    return _prints_numbers(raws)


def _prints_numbers(raws: list[str]) -> bool:
    """Recognise `seq 1 9`, `... | wc -l`, `wc -l < file`, `... | grep -c x` and `date +%s`."""
    if "|" in raws:
        last = raws[len(raws) - raws[::-1].index("|") :]
        return last in (["wc", "-l"], ["wc", "-c"], ["wc", "-w"]) or (last[:2] == ["grep", "-c"] and len(last) == 3)
    if raws[:1] == ["seq"]:
        return len(raws) > 1 and all(_SIGNED.fullmatch(raw) for raw in raws[1:])
    return raws in (["date", "+%s"], ["nproc"]) or (raws[:1] == ["wc"] and raws[2:3] == ["<"] and len(raws) == 4)


def holes_in(parts: Parts) -> Iterator[Hole]:
    """Yield all holes, nested ones too."""
    waiting: list[Parts] = [parts]
    while waiting:
        for part in waiting.pop():
            if isinstance(part, Elements):
                waiting.extend(part.words)
            elif isinstance(part, Hole):
                yield part
                waiting.extend(part.inner)


def regions_in(parts: Parts) -> list[Region]:
    """Return the regions that run to fill the holes, in the order they are written."""
    found = [hole.region for hole in holes_in(parts) if hole.region is not None]
    return sorted(found, key=lambda region: region.start)


def static_text(parts: Parts) -> str | None:
    """Return a heredoc's text, or None where it has holes."""
    if any(not isinstance(part, WordPiece) for part in parts):
        return None
    return "".join(part.text for part in parts if isinstance(part, WordPiece))


def _read(parts: Parts, written: str, *, expanding: bool) -> ShellWord:
    text, mask = _flatten(parts)
    spread = _expansions(mask) if expanding else []
    tilde = _TILDE.search(mask)
    cuts = [*spread, *([tilde.start()] if tilde else []), *([mask.index(_HOLE)] if _HOLE in mask else [])]
    several = bool(spread) or any(_spreads(part, expanding=expanding) for part in parts)
    return ShellWord(
        text=text[: min(cuts)] if cuts else text,
        static=not cuts,
        several=several,
        written=written,
        filled="" if tilde else _filled(parts, text, written, spread=bool(spread)),
    )


def _filled(parts: Parts, text: str, written: str, *, spread: bool) -> Literal["", "number", "files"]:
    holes = [part for part in parts if not isinstance(part, WordPiece)]
    if not holes:
        return "files" if spread and "{" not in text and text == written else ""
    numbers = all(isinstance(hole, Hole) and hole.kind == "number" and hole.name not in ("", "!") for hole in holes)
    return "number" if numbers and not spread else ""


def _expansions(mask: str) -> list[int]:
    """Return where patterns for file names and braces of alternatives begin, at the earliest."""
    brace = mask.find("{")
    alternatives = [at for at in (mask.find(",", brace), mask.find("..", brace)) if at >= 0]
    braces = [brace] if brace >= 0 and alternatives and mask.find("}", min(alternatives)) >= 0 else []
    bracket = mask.find("[")
    brackets = [bracket] if 0 <= bracket < mask.rfind("]") else []
    return [*braces, *brackets, *(at for at in (mask.find("*"), mask.find("?")) if at >= 0)]


def _flatten(parts: Parts) -> tuple[str, str]:
    """Return the text, and a mask of the same length that shows what stands outside quotes."""
    text: list[str] = []
    mask: list[str] = []
    for part in parts:
        if isinstance(part, WordPiece):
            text.append(part.text)
            mask.append(_QUOTED * len(part.text) if part.quoted else part.text)
        else:
            text.append(_HOLE)
            mask.append(_HOLE)
    return "".join(text), "".join(mask)


def _spreads(part: object, *, expanding: bool) -> bool:
    match part:
        case Hole(quoted=quoted, every=every, kind=kind, name=name):
            # A process' name is one word, and so are numbers; `$!` may be nothing at all.
            steady = kind == "process" or (kind == "number" and name != "!")
            return every or (expanding and not quoted and not steady)
        case Elements():
            return True
    return False


_ARITHMETIC = frozenset(["-eq", "-ne", "-lt", "-le", "-gt", "-ge"])


def check_operands(operands: tuple[Token, ...]) -> tuple[str, ...]:
    """
    Return the variables that a `[[ ]]` evaluates as arithmetic.

    Raises:
        Refusal: it evaluates something other than a number or a variable.
    """
    evaluated: list[str] = []
    for index, token in enumerate(operands):
        if token.raw in _ARITHMETIC:
            for other in (*operands[index - 1 : index], *operands[index + 1 : index + 2]):
                evaluated.extend(_evaluated(other))
        elif token.raw in ("-v", "-R") and not all(is_plain_name(each.raw) for each in operands[index + 1 : index + 2]):
            refuse(f"[[ {token.raw} ]] evaluates what it is given", 'write [[ -n "$name" ]]')
    return tuple(evaluated)


def _evaluated(token: Token) -> tuple[str, ...]:
    if is_number(token.parts):
        return ()
    holes = [part for part in token.parts if not (isinstance(part, WordPiece) and not part.text)]
    match holes:
        case [Hole(kind="variable", name=name, inner=inner, every=False)] if is_plain_name(name) and all(
            is_number(default) for default in inner
        ):
            return (name,)
        case [WordPiece(text=text)] if is_plain_name(text):
            return (text,)
    return refuse(
        f"[[ ]] evaluates {token.raw!r} as arithmetic, and what comes of that is not known",
        'compare by [ "$x" -gt 0 ]',
    )


_LEXEMES = re.compile(
    r"""
    [ \t\n]+
    | (?P<number> [0-9][0-9A-Za-z#@_]* )
    | (?P<name> \$?[A-Za-z_]\w* | \$\{[A-Za-z_]\w*\} )
    | (?P<safe> \$[#?$!] | \$\{\#[A-Za-z_]\w*\} | \$\{\#[A-Za-z_]\w*\[[@*]\]\} )
    | [-+*/%<>=!&|^~?:,();]
    """,
    re.VERBOSE | re.ASCII,
)


def names_in(text: str) -> tuple[str, ...]:
    """Return the variables whose values the arithmetic evaluates."""
    if "<(" in text or ">(" in text:
        refuse("arithmetic looks as if it substituted a process", "put blanks around < and >")
    names = []
    where = 0
    while where < len(text):
        lexeme = _LEXEMES.match(text, where)
        if lexeme is None:
            refuse(
                f"what the arithmetic {_shorten(text)!r} evaluates is not known beforehand",
                "use numbers and plain variables in arithmetic, or let python3 do the sum",
            )
        if lexeme["name"]:
            names.append(lexeme["name"].strip("${}"))
        where = lexeme.end()
    return tuple(names)


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


_ESCAPE = re.compile(
    r"\\(?:(?P<letter>[abeEfnrtv\\'\"?])|x(?P<hex>[0-9A-Fa-f]{1,2})|u(?P<short>[0-9A-Fa-f]{1,4})"
    r"|U(?P<long>[0-9A-Fa-f]{1,8})|(?P<octal>[0-7]{1,3})|(?P<other>[\x00-\U0010ffff]))"
)
_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def decode_ansi(text: str) -> str:
    """Decode the inside of `$'...'` as bash does."""
    return _ESCAPE.sub(_decode, text)


def _decode(escape: re.Match[str]) -> str:
    if (letter := escape["letter"]) is not None:
        return _LETTERS.get(letter, letter)
    if (short := escape["short"] or escape["long"]) is not None:
        return _character(int(short, 16), highest=0x10FFFF)
    if escape["hex"] is not None:
        return _character(int(escape["hex"], 16), highest=0x7F)
    if escape["octal"] is not None:
        return _character(int(escape["octal"], 8), highest=0x7F)
    return refuse(f"$'...' holds the escape {escape[0]!r}", "use \\n, \\t, \\\\, \\' or plain characters in $'...'")


def _character(code: int, *, highest: int) -> str:
    if not 0 < code <= highest or 0xD800 <= code < 0xE000:
        refuse("$'...' holds a byte that ends or spoils the word", "use plain characters in $'...'")
    return chr(code)
