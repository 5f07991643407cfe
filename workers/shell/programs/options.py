"""
Options before what a wrapper runs, by strict tables: an option that is not in the table is refused.

For after an unknown option nobody knows whether the next word is its value or the program.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from forgepool.workers.shell.language.refusal import refuse
from forgepool.workers.shell.language.script import ShellWord


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOptions:
    """Letters in `flags`, `valued` and `optional` (with an attached value); names without dashes in the `long` ones."""

    flags: str = ""
    valued: str = ""
    optional: str = ""
    long: frozenset[str] = frozenset()
    long_valued: frozenset[str] = frozenset()
    alone: frozenset[str] = frozenset()
    """Whole words that are options too, such as `-`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    name: str
    value: ShellWord | None = None


def options(
    flags: str = "", valued: str = "", *, optional: str = "", long: str = "", long_valued: str = "", alone: str = ""
) -> ProgramOptions:
    return ProgramOptions(
        flags=flags,
        valued=valued,
        optional=optional,
        long=frozenset(long.split()),
        long_valued=frozenset(long_valued.split()),
        alone=frozenset(alone.split()),
    )


def split_options(argv: tuple[ShellWord, ...], table: ProgramOptions) -> tuple[list[Option], tuple[ShellWord, ...]]:
    """
    The options after argv[0], and what follows them (`--` taken away).

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
        if word.text not in table.alone and (not word.text.startswith("-") or word.text == "-"):
            break
        words.pop()
        if word.text == "--":
            break
        found.extend(_read_option(argv[0], word.text, words, table))
    return found, tuple(words[::-1])


def _read_option(program: ShellWord, text: str, following: list[ShellWord], table: ProgramOptions) -> Iterable[Option]:
    if text in table.alone:
        return [Option(name=text)]
    if text.startswith("--"):
        return [_read_long(program, text, following, table)]
    return _read_letters(program, text, following, table)


def _read_long(program: ShellWord, text: str, following: list[ShellWord], table: ProgramOptions) -> Option:
    name, equals, value = text[2:].partition("=")
    if name in table.long_valued:
        return Option(name=name, value=_static(value) if equals else _take(program, text, following))
    if name not in table.long or equals:
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
