"""
Tests as scans see them: which ones a file holds, what each asserts, what keeps it from being run.

`places` says by its path whether a file is a test; `reading` reads one, by the module of its language, into a `Suite`
of `Case`s. A case has **assertions**, **rows** (the parameters that it is run with), **values** (what its assertions
compare with, where that has a name) and **marks** (skips and the like). `pairing` finds the old cases among the new
ones, `comparing` what they lost; neither knows any language.

Python, JavaScript, TypeScript, Go, Rust and Java are read by grammar. Of Ruby, PHP, C#, Kotlin, Swift, Scala, Elixir,
C, C++ and shell only the names of files and lines that look like assertions and marks are known: see `lines`.

Why not run the tests and compare what ran: the checks do. They see that a test vanished, and never that it still
runs and asserts nothing.
"""
