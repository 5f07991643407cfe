"""
Roles an agent can be given: markdown with YAML frontmatter.

`role` says what a skill is and reads one; `library` finds one by name, among those that ship (the `.md` files beside
this) and the repository's own in `.forgepool/skills/`; `narrowing` says which tools a skill leaves to a phase. The text
of a skill becomes the last system block: what all tasks share stands before it and is byte for byte the same, so that a
provider's cache holds across tasks.

A skill of the repository is read from the commit the work starts from, never from the worktree: an agent that could
write its own role could widen it. It takes the place of a built-in one of the same name.

Why may a skill only narrow? What a phase allows is the harness' rule, and a file in a repository is not the harness.
Why not several skills at once? They would contradict each other, and nobody could say which one was followed.
"""
