"""
What a bash script would run, told from its text: facts, or that it cannot be known.

`read_script` gives a `ShellScript` of facts or an `Unparseable` with a reason and a plainer way to write it. A
**fact** is an `Execution` (a simple command with its words), a `Redirect`, a `VariableAssignment`, a `Definition` of a
function or harmless `Arithmetic`. A **word** that only bash will know is not `static` and has its literal prefix
alone. A **wrapper** is a command that only runs another one, which is among the facts too: `sudo git push` is `sudo
git push` and `git push`. A script without facts (nothing, comments) is no permission.

The way through: `scanner` (with `spelling`, `heredocs`) finds bash's tokens; `parser` makes them a tree (`syntax`);
`tree` asks tree-sitter's grammar, which must find its commands at the same places; `walk` goes through the tree and has
`performer` run each command in the mind, by what is known of it: `builtins`, `wrappers`, `runners`, `shells`. Texts
they run (`bash -c`, `eval`, heredocs to shells, script files) go the same way. `reading` holds what only the whole
tells: counts, and whether arithmetic evaluates a variable that need not hold a number.

Nothing is guessed. What depends on more than the text, on options that are not in a table, or on a reading that shells
and grammars do not share, is refused (`refusal`), and so is all beyond the `limits`, and every mistake of ours. Where
several things could run, all of them are facts: both branches, a function's body and its name, a script's text and, if
the command may have written that script before, that it is `opaque`.

Why two parsers? Tree-sitter's grammar has words and places wrong without an error node: `cd x && make 2>&1 | tail` is
`(cd x && make) | tail` to it, `ls⏎\\⏎ rm x` one command. A parser of our own is as sure to have mistakes, of another
kind. So both must find the same commands; where they do not, nobody knows.

Why not bash itself, which reads scripts best? It tells of its tree only to itself.

What is not seen: what programs run by themselves (`make`, `python -c`, git's own aliases), programs put in the place of
others by PATH (the assignment is a fact), files that BASH_ENV or ENV name (facts as well), scripts changed by others
while a command runs. That is the sandbox's part.
"""

from pathlib import Path

from forgepool.workers.shell.interpret.reading import ScriptReading, StatementPlace
from forgepool.workers.shell.interpret.walk import ScriptWalk
from forgepool.workers.shell.parse.script import (
    Arithmetic,
    Definition,
    Execution,
    Fact,
    ReadFile,
    Redirect,
    ShellScript,
    ShellWord,
    Unparseable,
    VariableAssignment,
)
from forgepool.workers.shell.scan.refusal import Refusal

__all__ = [
    "Arithmetic",
    "Definition",
    "Execution",
    "Fact",
    "ReadFile",
    "Redirect",
    "ShellScript",
    "ShellWord",
    "Unparseable",
    "VariableAssignment",
    "read_script",
]


def read_script(text: str, *, folder: Path, read_file: ReadFile | None = None) -> ShellScript | Unparseable:
    """
    What a bash script would run, started in `folder`.

    `read_file` gives the texts of script files by their absolute paths, `..` and symlinks not resolved; what it gives
    None for stays `opaque`. Ends soon for every text, and raises nothing.
    """
    reading = ScriptReading(read_file=read_file)
    try:
        ScriptWalk(reading).read(text, StatementPlace(folder=folder))
        return ShellScript(facts=reading.finish())
    except Refusal as refusal:
        return Unparseable(why=refusal.why, instead=refusal.instead)
    except Exception as surprise:  # a mistake of ours must not become a permission
        return Unparseable(
            why=f"reading it went wrong ({type(surprise).__name__})", instead="write it as shorter, plainer commands"
        )
