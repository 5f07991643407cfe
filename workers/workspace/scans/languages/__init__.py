"""
Tests as scans see them: which ones a file holds, what each asserts, and what keeps it from running.

`suite` names the paths of tests, and holds the contents of a file as a `Suite` of `SuiteCase`s. A case has
**assertions**, **rows** (the parameters it runs with), **values** (named values that its assertions compare with) and
**marks** (skips and the like). `scans.tests` pairs old cases with new ones and compares them, in any language.

Python, JavaScript, TypeScript, Go, Rust and Java are read by grammar. Of Ruby, PHP, C#, Kotlin, Swift, Scala, Elixir,
C, C++ and shell, only file names and lines that look like assertions and marks are known: see `read_lines`.

Why not run the tests and compare what ran: the checks do. They see that a test vanished, but not that it still
runs and asserts nothing.
"""
