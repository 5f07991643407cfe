"""
The proof bundle of a run: what landed, by which evidence, at which cost. Git alone proves it.

`collect` folds a run's journal into a **bundle** (`bundle`). `page` shows a bundle as one file of HTML. `seal` computes
its digest and its signatures. `sums` adds its numbers up again. `prove` compares its landings with the first-parent
history of a repository, and `evidence` each certificate and approval with the objects there. `verify` is the verdict.

Why not the journal itself: it is large, has logs and paths of the host in it, and only this release can fold it.

The limit of all of it: git shows what landed, and not that a check was run. A certificate is bound to a tree and to a
definition by a digest that anyone can compute. So only a signature tells a real bundle from a consistent false one.
"""
