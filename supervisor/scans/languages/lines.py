"""
Tests of languages without a grammar here, line by line: Ruby, PHP, C#, Kotlin, Scala, Groovy, Swift, Elixir, C, C++,
shell.

No functions are told apart, and strings are not told from code. So this says only what the lines of a whole file say:
how many assert something, and which ones keep tests from being run.
"""

import re
from collections.abc import Iterator

from forgepool.supervisor.scans.languages.suite import Assertion, CodeToken, Mark, Suite, SuiteCase

_ASSERTS = re.compile(
    r"\b(assert\w*|ASSERT_\w+|EXPECT_\w+|REQUIRE\w*|CHECK\w*|XCTAssert\w*|refute\w*|must_\w+|should(Be)?\w*|expect|"
    r"Assert\.\w+|Should\(\)|verify)\b"
)
_SKIPS = re.compile(
    r"^\s*(xit|xdescribe|xcontext|xspecify|skip|pending)\b|\bmarkTestSkipped\b|\bmarkTestIncomplete\b|@Ignore\b|@Disabled\b|"
    r"\[(Ignore|Explicit)\b|\bSkip\s*=\s*\"|\bXCTSkip\b|@tag\s+:skip|\bGTEST_SKIP\b|\bDISABLED_\w+|Assert\.(Ignore|Inconclusive)"
)
_CONSTANT = re.compile(
    r"\b(assert(?:_?[Tt]rue)?|Assert\.(?:Is)?True|XCTAssertTrue|EXPECT_TRUE|ASSERT_TRUE)\s*\(?\s*true\s*\)?\s*;?$"
)
_WORD = re.compile(r"\"[^\"]*\"|'[^']*'|-?\b\d[\w.]*|\b[A-Za-z_]\w*|[^\s\w()\[\],;]+")


def read(text: str) -> Suite:
    """The file as one single case."""
    lines = [(at, line.strip()) for at, line in enumerate(text.split("\n"), 1)]
    code = [(at, line) for at, line in lines if line and not line.startswith(("#", "//", "*", "/*"))]
    assertions = tuple(
        Assertion(line=at, text=line[:120], words=tuple(_words(line)), strength=0 if _CONSTANT.search(line) else 2)
        for at, line in code
        if _ASSERTS.search(line) and not line.startswith(("use ", "using ", "import ", "require ", "def ", "fun "))
    )
    marks = tuple(Mark(line=at, text=line[:120], kind="skip") for at, line in code if _SKIPS.search(line))
    if not code:
        return Suite()
    whole = SuiteCase(name="", line=1, text=code[0][1][:120], words=(), assertions=assertions, marks=marks)
    return Suite(cases={"": whole})


def _words(line: str) -> Iterator[CodeToken]:
    for text in _WORD.findall(line):
        literal = text[0] in "\"'-0123456789" and text != "-"
        name = text[0].isalpha() or text[0] == "_"
        yield CodeToken(kind="literal" if literal else "name" if name else "sign", text=text)
