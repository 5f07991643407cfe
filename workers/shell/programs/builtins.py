"""Builtins of bash that change what other commands are, or that evaluate what they are given."""

import re
from collections.abc import Callable, Mapping

from forgepool.workers.shell.language.refusal import refuse
from forgepool.workers.shell.language.script import (
    Effect,
    Evaluates,
    Moves,
    Reads,
    ReadsFile,
    Sets,
    ShellWord,
    StopsOnError,
)
from forgepool.workers.shell.language.syntax import name_set
from forgepool.workers.shell.language.words import is_plain_name
from forgepool.workers.shell.programs.options import options, split_options

Argv = tuple[ShellWord, ...]
Builtin = Callable[[Argv], tuple[Effect, ...]]

_INSTEAD: Mapping[str, str] = {
    "alias": "write the command out, or define a function",
    "bind": "leave it out",
    "caller": "leave it out",
    "compgen": "use ls or find",
    "complete": "leave it out",
    "compopt": "leave it out",
    "coproc": "use a pipe, or a job in the background",
    "enable": "leave it out",
    "fc": "write the command out",
    "getopts": "look at $1, $2... with case",
    "history": "leave it out",
    "declare": "write it plainly, without quotes or another command before it",
    "export": "write it plainly, without quotes or another command before it",
    "local": "write it plainly, without quotes or another command before it",
    "readonly": "write it plainly, without quotes or another command before it",
    "typeset": "write it plainly, without quotes or another command before it",
    "let": "write $((...))",
    "unalias": "leave it out",
}
_SET_LETTERS = frozenset("abefhmnuvxCEHT")
_SET_NAMES = name_set(
    """
    allexport errexit errtrace functrace noclobber noglob nounset pipefail verbose xtrace
    """
)
_PLAIN_VARIABLE = re.compile(r'"?\$(?:!|([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})"?', re.ASCII)
_BINARY = frozenset(
    ["=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef", "-a", "-o"]
)
_NUMERIC = frozenset(["-eq", "-ne", "-lt", "-le", "-gt", "-ge"])
_DECLARED = options("aAgrxp")


def _refused(argv: Argv) -> tuple[Effect, ...]:
    return refuse(
        f"{argv[0].text} changes how commands are read, or evaluates what it is given", _INSTEAD[argv[0].text]
    )


def _cd(argv: Argv) -> tuple[Effect, ...]:
    if not all(word.static for word in argv):
        return (Moves(to=None),)
    _, rest = split_options(argv, options("LPe@"))
    known = len(rest) == 1 and rest[0].static and rest[0].text not in ("", "-")
    return (Moves(to=rest[0] if known else None),)


def _moved_somewhere(argv: Argv) -> tuple[Effect, ...]:
    return (Moves(to=None),)


def _read(argv: Argv) -> tuple[Effect, ...]:
    found, rest = split_options(argv, options("rse", "adinNptu"))
    arrays = [option.value for option in found if option.name == "a" and option.value is not None]
    if arrays:
        return tuple(Sets(name=_name(argv[0], word), array=True) for word in arrays)
    return _sets(argv[0], rest) or (Sets(name="REPLY"),)


def _mapfile(argv: Argv) -> tuple[Effect, ...]:
    """Its `-C` runs a text, and is not in the table."""
    _, rest = split_options(argv, options("t", "dnsu"))
    names = [_name(argv[0], word) for word in rest] or ["MAPFILE"]
    return tuple(Sets(name=name, array=True) for name in names)


def _shopt(argv: Argv) -> tuple[Effect, ...]:
    """Not `nullglob`: a word that vanishes makes another command of `git x* push`."""
    _, rest = split_options(argv, options("suq"))
    if not rest or any(not word.static or word.text not in ("globstar", "dotglob") for word in rest):
        refuse("shopt changes how commands are read", "leave it out, and write file names out")
    return ()


def _unset(argv: Argv) -> tuple[Effect, ...]:
    _, rest = split_options(argv, options("fv"))
    return tuple(Sets(name=_name(argv[0], word), value=ShellWord(text="", static=True), numeric=True) for word in rest)


def _wait(argv: Argv) -> tuple[Effect, ...]:
    """Its `-p` evaluates a name; a job's number is none."""
    effects: list[Effect] = []
    for word in argv[1:]:
        if word.static and not word.text.startswith("-p"):
            continue
        found = _PLAIN_VARIABLE.fullmatch(word.written)
        if found is None:
            refuse(f"wait is given {word.shown!r}, which may be an option", 'write wait "$pid", or wait alone')
        effects.extend(Evaluates(name=name) for name in found.groups() if name)
    return tuple(effects)


def _printf(argv: Argv) -> tuple[Effect, ...]:
    if len(argv) < 2:
        return ()
    first = argv[1]
    if not first.static and (not first.text or first.text.startswith("-")):
        refuse(f"printf is given {first.shown!r}, which may be an option", 'write printf "%s" "$name"')
    if not first.text.startswith("-v"):
        return ()
    name = argv[2:3] if first.text == "-v" else (ShellWord(text=first.text[2:], static=first.static),)
    return _sets(argv[0], name)


def _test(argv: Argv) -> tuple[Effect, ...]:
    """`[` and `test` evaluate what follows `-v`; words that are not known must not become such an operator."""
    words = argv[1:-1] if argv[0].text == "[" else argv[1:]
    effects: list[Effect] = []
    for index, word in enumerate(words):
        before, after = words[index - 1] if index else None, words[index + 1] if index + 1 < len(words) else None
        if word.static and word.text in ("-v", "-R") and after is not None:
            _name(argv[0], after)
        if word.static:
            continue
        compared = any(each is not None and each.static and each.text in _NUMERIC for each in (before, after))
        number = _PLAIN_VARIABLE.fullmatch(word.written) if word.several and compared else None
        if number is not None and (name := number[1] or number[2]):
            # Without quotes it must hold a number, and then it is one word or none.
            effects.append(Evaluates(name=name))
        if (word.several and number is None) or not _is_operand(before, after):
            refuse(
                f"{argv[0].text} is given {word.shown!r}, which may become one of its operators",
                'put variables into quotes and compare with an operator: [ "$x" = y ], [ -n "$x" ]',
            )
    return tuple(effects)


def _is_operand(before: ShellWord | None, after: ShellWord | None) -> bool:
    if before is None and after is None:
        return True
    if after is not None and after.static and after.text in _BINARY:
        return True
    return (
        before is not None
        and before.static
        and (before.text.startswith("-") or before.text in _BINARY or before.text == "!")
    )


def _set(argv: Argv) -> tuple[Effect, ...]:
    effects: list[Effect] = []
    words = iter(argv[1:])
    for word in words:
        if word.static and word.text == "--":
            break
        if not word.static:
            refuse(
                f"set is given {word.shown!r}, which may be an option", "write set -- before words that are not known"
            )
        if word.text[:1] not in ("-", "+") or word.text in ("-", "+"):
            break
        effects.extend(_set_options(word.text, words))
    return tuple(effects)


def _set_options(text: str, following: object) -> list[Effect]:
    letters = set(text[1:])
    names: list[str] = []
    if "o" in letters:
        letters.discard("o")
        name = next(following, None)  # type: ignore[call-overload]
        if name is None:
            return []
        names.append(name.text if name.static else "")
    if not letters <= _SET_LETTERS or not set(names) <= _SET_NAMES:
        refuse(f"set {text} changes how commands are read", "use set -e, -u, -x and -o pipefail alone")
    stops = text[0] == "-" and ("e" in letters or "errexit" in names)
    return [StopsOnError()] if stops else []


def _eval(argv: Argv) -> tuple[Effect, ...]:
    words = argv[2:] if argv[1:2] and argv[1].text == "--" else argv[1:]
    if any(not word.static for word in words):
        refuse("eval is given a text that is not known beforehand", "run the command itself")
    return (Reads(text=" ".join(word.text for word in words)),) if words else ()


def _trap(argv: Argv) -> tuple[Effect, ...]:
    if argv[1:2] and argv[1].static and argv[1].text in ("-l", "-p"):
        return ()
    words = argv[2:] if argv[1:2] and argv[1].text == "--" else argv[1:]
    if len(words) < 2 or words[0].text == "-":
        return ()
    if not words[0].static:
        refuse("trap is given a text that is not known beforehand", "give trap a command in single quotes")
    return (Reads(text=words[0].text, later=True),)


def _source(argv: Argv) -> tuple[Effect, ...]:
    words = argv[2:] if argv[1:2] and argv[1].text == "--" else argv[1:]
    if not words or not words[0].static or words[0].text.startswith("-"):
        refuse("the file that is read as a script is not known beforehand", "name the file")
    return (ReadsFile(path=words[0], dialect="bash", here=True),)


def _jobs(argv: Argv) -> tuple[Effect, ...]:
    split_options(argv, options("lnprs"))
    return ()


def _hash(argv: Argv) -> tuple[Effect, ...]:
    if len(argv) > 1 and not (len(argv) == 2 and argv[1].static and argv[1].text == "-r"):
        refuse("hash gives a program's name to another one", "write the program's path out")
    return ()


def _sets(program: ShellWord, words: Argv) -> tuple[Effect, ...]:
    return tuple(Sets(name=_name(program, word)) for word in words)


def _name(program: ShellWord, word: ShellWord) -> str:
    if not word.static or not is_plain_name(word.text):
        refuse(
            f"{program.text} is given {word.shown!r}, which is no plain variable's name",
            "name a variable by letters, digits and _",
        )
    return word.text


BUILTINS: Mapping[str, Builtin] = {
    **dict.fromkeys(_INSTEAD, _refused),
    ".": _source,
    "[": _test,
    "cd": _cd,
    "eval": _eval,
    "hash": _hash,
    "jobs": _jobs,
    "mapfile": _mapfile,
    "popd": _moved_somewhere,
    "printf": _printf,
    "pushd": _moved_somewhere,
    "read": _read,
    "readarray": _mapfile,
    "set": _set,
    "shopt": _shopt,
    "source": _source,
    "test": _test,
    "trap": _trap,
    "unset": _unset,
    "wait": _wait,
}
DECLARING = frozenset(["declare", "export", "local", "readonly", "typeset"])


def split_declaration(argv: Argv) -> tuple[bool, Argv]:
    """
    Whether `declare` or its kin declares arrays, and the words after its options.

    Raises:
        Refusal: an option that makes later values be evaluated, or a variable's name that is not known.
    """
    found, rest = split_options(argv, _DECLARED)
    return any(option.name in "aA" for option in found), rest
