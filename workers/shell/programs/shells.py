"""Shells and script files: where a shell finds its script, and which shell runs a file."""

import posixpath
import re
from collections.abc import Iterator

from forgepool.workers.shell.language.refusal import refuse
from forgepool.workers.shell.language.script import Dialect, Effect, Reads, ReadsFile, ReadsInput, ShellWord
from forgepool.workers.shell.programs.options import Option, ProgramOptions, split_options
from forgepool.workers.shell.programs.wrappers import WRAPPERS

DIALECTS: dict[str, Dialect] = {
    "bash": "bash",
    "sh": "sh",
    "dash": "sh",
    "ash": "sh",
    "zsh": "zsh",
    "ksh": "zsh",
    "mksh": "zsh",
}
_OPTIONS = ProgramOptions(
    "aceflmnsuvxCEp", "o", long="login noprofile norc version help noediting verbose pipefail", alone="+e +u +x +v"
)
_PLAIN = re.compile(r"[\w\s./:,@%+\"';|&>-]*", re.ASCII)
_ZSH_WORDS = re.compile(r"(?:^|[\s;|&])(?:-|nocorrect|noglob|repeat|foreach|print|whence)\s")


def unwrap_shell(argv: tuple[ShellWord, ...], dialect: Dialect) -> tuple[Effect, ...]:
    """Return what a shell runs when it is started with these words."""
    _check_known(argv)
    found, rest = split_options(argv, _OPTIONS)
    names = {option.name for option in found}
    _check_values(argv[0], found)
    if names & {"version", "help"}:
        return ()
    if "c" in names:
        return (_text(argv[0], rest, dialect),)
    if rest and "s" not in names:
        if not rest[0].static or rest[0].text.startswith(("-", "+")):
            refuse(
                f"the script {rest[0].shown!r} that {argv[0].text} runs is not known beforehand",
                "name the script's file",
            )
        return (ReadsFile(path=rest[0], dialect=dialect),)
    return (ReadsInput(dialect=dialect),)


def _check_known(argv: tuple[ShellWord, ...]) -> None:
    """Refuse unknown words that might become the shell's text or options."""
    for word in argv[1:]:
        if not word.static:
            refuse(
                f"what {argv[0].text} is given to run, {word.shown[:40]!r}, is not known beforehand",
                "put it into single quotes, without variables and patterns, or run the command itself",
            )
        if not word.text.startswith(("-", "+")):
            return


def check_dialect(text: str, dialect: Dialect) -> None:
    """
    Refuse a text that a shell of another family may read otherwise than bash.

    The scanner finds what `sh` reads otherwise.

    Raises:
        Refusal: `zsh` or `ksh` is given more than plain commands.
    """
    if dialect == "zsh" and (not _PLAIN.fullmatch(text) or _ZSH_WORDS.search(text)):
        refuse("another shell than bash is given more than plain commands", "run it by bash -c")


def _text(program: ShellWord, rest: tuple[ShellWord, ...], dialect: Dialect) -> Effect:
    if not rest:
        refuse(f"{program.text} -c lacks its text", f"write {program.text} -c 'command'")
    if not rest[0].static:
        refuse(
            f"the text that {program.text} -c runs is not known beforehand",
            "put it into single quotes, without variables and patterns, or run the command itself",
        )
    return Reads(text=rest[0].text, dialect=dialect)


def _check_values(program: ShellWord, found: list[Option]) -> None:
    allowed = ("pipefail", "errexit", "nounset", "xtrace", "verbose")
    for option in found:
        if option.name == "o" and (option.value is None or option.value.text not in allowed):
            refuse(f"{program.text} -o changes how the script is read", "use -e, -u and -o pipefail alone")


_FIRST_LINE = re.compile(r"#![ \t]*(?P<path>[^ \t\n]+)(?P<words>[^\n]*)")
_BETWEEN = re.compile(r"[\n;&|(){}`!]|\b(?:then|do|else|elif|if|while|until|time)\b(?=[ \t])")
"""Places after which commands may begin."""
_KNOWN = re.compile(r"['\"]?[\w./:=,@%+~-]+['\"]?(?=[ \t]|$)", re.ASCII)
_ASSIGNMENTS = re.compile(r"^(?:[A-Za-z_]\w*=[^ \t'\"]*[ \t]+)+")
_REDIRECTIONS = re.compile(r"[<>]+[|]?[ \t]*[^ \t]+")
_RUN_OTHERS = frozenset(["command", "eval", "exec", *DIALECTS, *WRAPPERS])
_MOST_MADE_OUT, _MOST_WRAPPED, _MOST_WORDS = 2000, 6, 40
_FIRST_LINE_OPTIONS = re.compile(r"(?:[ \t]+-[efuvxl]+)?[ \t]*")


def dialect_of(text: str) -> Dialect | None:
    """
    Return the shell that runs a script file with this text; None where another program does.

    Raises:
        Refusal: a shell is given options that change how it is read.
    """
    if not text.startswith("#!"):
        return "bash"
    found = _FIRST_LINE.match(text)
    if found is None:
        return None
    program, words = posixpath.basename(found["path"]), found["words"]
    if program == "env":
        program, _, words = words.strip().removeprefix("-S").strip().partition(" ")
        words = f" {words}" if words else ""
    if program not in DIALECTS:
        return None
    if not _FIRST_LINE_OPTIONS.fullmatch(words):
        refuse(f"the first line gives {program} the options {words.strip()!r}", f"write #!/bin/{program}")
    return DIALECTS[program]


_INTERPRETERS = re.compile(r"(?:python|pypy)[\d.]*|node|nodejs|ruby|perl|php|lua[\d.]*", re.ASCII)
_PYTHONS = ("python", "pypy")
_VALUED = frozenset(["-W", "-X", "-r", "--require", "--import", "--loader"])
_BARE = frozenset(["-", "-u", "-B", "-I", "-s", "-S", "-E"])


def find_interpreted(argv: tuple[ShellWord, ...]) -> ShellWord | None:
    """
    Return the word for the file that an interpreter runs, `-` where it runs its input; None for any other command.

    It is None as well where the text or a module is given, and where an option may mean that.
    """
    program = posixpath.basename(argv[0].text)
    if not _INTERPRETERS.fullmatch(program):
        return None
    if all(word.text in _BARE for word in argv[1:]):
        return ShellWord(text="-", static=True, written="-")
    gives = set("cm" if program.startswith(_PYTHONS) else "eEpnr")
    skip = False
    for word in argv[1:]:
        if skip or word.text in _VALUED:
            skip = not skip
        elif word.text[:1] != "-":
            return word
        elif not word.text.startswith("--") and gives & set(word.text):
            return None
    return None


def find_commands(text: str) -> Iterator[tuple[ShellWord, ...]]:
    """
    Yield the beginnings of what look like commands in a script that cannot be parsed.

    The result serves rules that restrain: it may be less than what runs, or more.
    """
    joined = text.replace("\\\n", " ")
    lines = "\n".join(line for line in joined.split("\n") if not line.lstrip().startswith("#"))
    for piece in _BETWEEN.split(lines)[:_MOST_MADE_OUT]:
        words = _plain_words(_ASSIGNMENTS.sub("", _REDIRECTIONS.sub(" ", piece).strip()))
        runs = bool(words) and words[0].text in _RUN_OTHERS
        for start in range(min(len(words), _MOST_WRAPPED) if runs else 1):
            if words[start:] and "=" not in words[start].text:
                yield words[start:]


def _plain_words(rest: str) -> tuple[ShellWord, ...]:
    words: list[ShellWord] = []
    while len(words) < _MOST_WORDS and (found := _KNOWN.match(rest)) is not None:
        text = found[0].strip("'\"")
        if not text:
            break
        words.append(ShellWord(text=text, static=True, written=text))
        rest = rest[found.end() :].lstrip()
    return tuple(words)
