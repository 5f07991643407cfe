"""How the command line speaks: plain lines, JSON, sentences of complaint. Nothing here decides anything."""

import json
import os
import sys


def hush() -> None:
    """Send what is still written to standard output nowhere, once its reader has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def printable(text: str) -> str:
    """
    The text as one line that cannot steer a terminal: what is not printable is written out, as in `\\x1b`.

    Names of files, output of commands and of models end up on a person's terminal, and none of them is trusted.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else " " if each == "\t" else each.encode("unicode_escape").decode() for each in text
    )


def complain(sentence: str, status: int) -> int:
    """One sentence on standard error; returns the status."""
    sys.stderr.write(f"forgepool: {_lines(sentence)}\n")
    return status


def say(line: str, *, style: str = "") -> None:
    """One line on standard output, or the lines the caller has made of it; seen at once."""
    if style:
        from forgepool.orchestrator.cli.output.terminal import say_in_colour

        say_in_colour(_lines(line), style)
    else:
        sys.stdout.write(f"{_lines(line)}\n")
    sys.stdout.flush()


def say_json(value: object) -> None:
    """One line of JSON, in ASCII: programs read the same, and a terminal is not steered by it."""
    say(json.dumps(value))


def _lines(text: str) -> str:
    return "\n".join(printable(line) for line in text.split("\n"))
