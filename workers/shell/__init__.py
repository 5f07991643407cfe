"""
The one place that understands shell commands.

`read_script` gives a `ShellScript` of facts, or an `Unparseable` with a reason and a plainer way to write it. A
**fact** is an `Execution` (a simple command with its words), a `Redirect`, a `VariableAssignment`, a `Definition` of a
function or harmless `Arithmetic`. A **word** that only bash can know is not `static` and keeps its literal prefix
alone. A **wrapper** only runs another command, which is among the facts too: `sudo git push` gives `sudo git push` and
`git push`. A script without facts (empty, or comments alone) is no permission.

The road: in `language/`, `scanner` (with `spelling`) finds bash's tokens and `parser` makes them a tree. `read_script`
asks tree-sitter's grammar, which must find the same commands, and walks the tree. `performer` follows what each command
runs, by the tables in `programs/`; `script_facts` collects the facts, `written_files` the texts of written files. Texts
that a command runs (`bash -c`, `eval`, heredocs to shells, script files) go the same way. `purpose/` answers another
question about past commands: what they read, wrote and were for.

Nothing is guessed for a permission. A script is refused where its meaning depends on more than its text, or on an
option that is not in a table. It is refused where shells and grammars differ, beyond the limits, and after a mistake of
ours. Where several things could run, all of them are facts: both branches, a function's body and its name. A script
file that an earlier command may have written is `opaque`. One that this script surely writes has the text that the
script gives it, and is refused where that cannot be known.

Why two parsers? Tree-sitter's grammar puts some words in wrong places without an error node. It reads `cd x && make
2>&1 | tail` as `(cd x && make) | tail`, and `ls⏎\\⏎ rm x` as one command. Our parser surely has mistakes of another
kind. So both must find the same commands.

Why not bash itself, which reads scripts best? It shows its tree to no other program.

Not seen: what programs run by themselves (`make`, `python -c`, git's own aliases); programs that PATH puts in the place
of others; files that BASH_ENV or ENV name (both assignments are facts). Scripts that others change while a command runs
are not seen either. The sandbox guards against these.
"""
