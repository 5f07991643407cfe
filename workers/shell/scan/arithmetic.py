"""
Which arithmetic is harmless: bash evaluates the *values* of variables in it, and `a[$(rm x)]` is such a value.

So arithmetic is numbers, operators and plain names here; whether each name holds a number is asked of the whole
script (`numbers`).
"""

import re

from forgepool.workers.shell.scan.refusal import refuse

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
    """The variables whose values are evaluated with it."""
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
