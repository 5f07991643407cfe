"""`bash -c 'text'`, `sh file`, `... | sh`: where a shell finds its script."""

import re

from forgepool.workers.shell.parse.script import ShellWord
from forgepool.workers.shell.programs.effects import Dialect, Effect, Reads, ReadsFile, ReadsInput
from forgepool.workers.shell.programs.options import Option, options, split_options
from forgepool.workers.shell.scan.refusal import refuse

DIALECTS: dict[str, Dialect] = {
    "bash": "bash",
    "sh": "sh",
    "dash": "sh",
    "ash": "sh",
    "zsh": "zsh",
    "ksh": "zsh",
    "mksh": "zsh",
}
_OPTIONS = options(
    "aceflmnsuvxCEp", "o", long="login noprofile norc version help noediting verbose pipefail", alone="+e +u +x +v"
)
_PLAIN = re.compile(r"[\w\s./:,@%+\"';|&>-]*", re.ASCII)
_ZSH_WORDS = re.compile(r"(?:^|[\s;|&])(?:-|nocorrect|noglob|repeat|foreach|print|whence)\s")


def unwrap_shell(argv: tuple[ShellWord, ...], dialect: Dialect) -> tuple[Effect, ...]:
    """What a shell started with these words runs."""
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
    """What is not known among its words must not become its text or its options."""
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
    Whether a shell of another family reads the text as bash does; what `sh` reads otherwise the scanner tells.

    Raises:
        Refusal: it holds more than plain commands.
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
