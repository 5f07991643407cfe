"""
What a shell command reads, writes and is for: of a record of what was run, so it need not be certain, only honest.

An **invocation** is one program with its words, where it ran, what it was fed and what the shell opened for it.
`invocations` finds them with the policy's own lexer and grammar; where those refuse, `guesses` finds them more crudely.
`programs` says what well-known programs are for, `reading` which lines of which files they show, `writing` which files
they change, `snippets` what scripts in Python and patches do, `editors` what SWE-agent's commands do. `commands`,
beside this folder, puts it together.

Why not the facts of `read_script`? They leave out what an account of reading needs: which command feeds which, and
what a heredoc holds. Its refusals are meant for permissions, where a command that may do anything must be denied; here
it is still worth knowing that it wrote a file.
"""
