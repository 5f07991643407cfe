"""
The purpose of past shell commands: what they read, wrote and were for. It need not be certain, only honest.

An **invocation** is one program with its words, its folder, its input and the files the shell opened for it.
`invocations` finds them with the policy's lexer and parser; where those refuse, `commands` guesses more crudely.
`programs` says what well-known programs are for, `reading` which lines they show, `writing` which files they change,
`file_access` what Python scripts and patches write. `commands` puts it together.

Why not the facts of `read_script`? They leave out which command feeds which, and what a heredoc holds. Its refusals are
meant for permissions, where a command that may do anything is denied. Here it is still worth knowing that such a
command wrote a file.
"""
