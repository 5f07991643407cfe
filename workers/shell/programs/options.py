"""
Reads the options before what a wrapper runs, by strict tables.

An option that is not in the table is refused: the next word could be its value or the program.
"""

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass

from forgepool.workers.shell.language.refusal import refuse
from forgepool.workers.shell.language.script import ShellWord


@dataclass(frozen=True, slots=True)
class ProgramOptions:
    """A program's options: letters in `flags`, `valued` and `optional` (value attached), names in the `long` ones."""

    flags: str = ""
    valued: str = ""
    _: KW_ONLY
    optional: str = ""
    long: str = ""
    long_valued: str = ""
    alone: str = ""
    """Whole words that are options too, such as `-`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    name: str
    value: ShellWord | None = None


def split_options(argv: tuple[ShellWord, ...], table: ProgramOptions) -> tuple[list[Option], tuple[ShellWord, ...]]:
    """
    Return the options after argv[0], and the words after them (`--` removed).

    Raises:
        Refusal: one is not in the table, or not known before it is run.
    """
    found: list[Option] = []
    words = list(argv[1:])[::-1]
    while words:
        word = words[-1]
        if not word.static:
            if word.text and not word.text.startswith("-"):
                break
            _refuse_dynamic(argv[0], word)
        if word.text not in table.alone.split() and (not word.text.startswith("-") or word.text == "-"):
            break
        words.pop()
        if word.text == "--":
            break
        found.extend(_read_option(argv[0], word.text, words, table))
    return found, tuple(words[::-1])


def _read_option(program: ShellWord, text: str, following: list[ShellWord], table: ProgramOptions) -> Iterable[Option]:
    if text in table.alone.split():
        return [Option(name=text)]
    if text.startswith("--"):
        return [_read_long(program, text, following, table)]
    return _read_letters(program, text, following, table)


def _read_long(program: ShellWord, text: str, following: list[ShellWord], table: ProgramOptions) -> Option:
    name, equals, value = text[2:].partition("=")
    if name in table.long_valued.split():
        return Option(name=name, value=_static(value) if equals else _take(program, text, following))
    if name not in table.long.split() or equals:
        _refuse_unknown(program, text)
    return Option(name=name)


def _read_letters(program: ShellWord, text: str, following: list[ShellWord], table: ProgramOptions) -> Iterable[Option]:
    found: list[Option] = []
    for index, letter in enumerate(text[1:], start=2):
        rest = text[index:]
        if letter in table.valued:
            return [*found, Option(name=letter, value=_static(rest) if rest else _take(program, text, following))]
        if letter in table.optional:
            return [*found, Option(name=letter, value=_static(rest) if rest else None)]
        if letter not in table.flags:
            _refuse_unknown(program, text)
        found.append(Option(name=letter))
    return found


def _take(program: ShellWord, text: str, following: list[ShellWord]) -> ShellWord:
    if not following:
        refuse(f"{program.text} {text} lacks its value", f"give {text} its value")
    value = following.pop()
    if value.several:
        _refuse_dynamic(program, value)
    return value


def _static(text: str) -> ShellWord:
    return ShellWord(text=text, static=True, written=text)


def _refuse_unknown(program: ShellWord, text: str) -> None:
    refuse(
        f"what {program.text} runs with the option {text!r} is not known",
        f"run the command without {program.text}, or without that option",
    )


def _refuse_dynamic(program: ShellWord, word: ShellWord) -> None:
    refuse(
        f"{program.shown} is given {word.shown!r} before what it runs, which may be anything",
        "write the options and the program out",
    )
