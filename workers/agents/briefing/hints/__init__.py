"""
Which files a task is probably about, guessed before anybody looks: it saves the first turns of looking.

A **hint** is a path, a confidence and a reason (`hint`). By rule (`rules`): what the task's words name (`named`),
where the identifiers in them are defined (`definitions`), and what used to change together with those (`history`). Or
by a small model (`model`), merged with the rules' own. What is below 0.7, beyond the tenth, or not in the commit that
the work starts from, is left out.

Hints bind nobody, so nothing here may cost much or fail loudly: each question to git has a second or two, and one that
goes wrong gives no hints.

Why git grep and not ctags for definitions? It reads the commit and not the worktree, asks only for the names that
matter, and needs no further program, nor its configuration files, which a repository could bring along. The price:
a definition without a keyword of its own, as in C, is not found.
"""
