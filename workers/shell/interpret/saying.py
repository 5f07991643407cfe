"""What `echo`, `printf` and `cat <<EOF` say, where that is known: it may be given to a shell."""

import re

from forgepool.workers.shell.interpret.redirections import input_of, keeps_output
from forgepool.workers.shell.parse.syntax import Simple, Statement
from forgepool.workers.shell.parse.words import read_word
from forgepool.workers.shell.programs.effects import FromFile, Inherited, Input, StdinText

_ECHO_OPTIONS = re.compile(r"-[neE]+")


def find_piped_input(statement: Statement) -> Input:
    """What a pipe behind it brings, as far as that is known for sure."""
    if not isinstance(statement, Simple) or not statement.words or not keeps_output(statement.redirections):
        return Inherited()
    words = [read_word(word) for word in statement.words]
    if not all(word.static for word in words):
        return Inherited()
    program, *texts = [word.text for word in words]
    match program:
        case "echo":
            return _told(_echoed(texts))
        case "printf":
            return _told(_printed(texts))
        case "cat" if not texts or texts == ["-"]:
            return input_of(statement.redirections, Inherited())
        case "cat" if len(texts) == 1 and not texts[0].startswith("-"):
            return FromFile(path=words[1])
    return Inherited()


def _told(text: str | None) -> Input:
    return Inherited() if text is None else StdinText(text=text)


def _echoed(texts: list[str]) -> str | None:
    if texts and texts[0] == "-n":
        texts = texts[1:]
    if any("\\" in text for text in texts) or (texts and _ECHO_OPTIONS.fullmatch(texts[0])):
        return None
    return " ".join(texts) + "\n"


def _printed(texts: list[str]) -> str | None:
    if len(texts) == 2 and texts[0] in ("%s", "%s\\n"):
        return texts[1]
    if len(texts) != 1 or texts[0].startswith("-"):
        return None
    text = texts[0].replace("\\n", "\n")
    return None if "\\" in text or "%" in text else text
