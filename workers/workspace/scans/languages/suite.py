"""
The contents of a file of tests in any language, and the paths that are tests.

Paths are judged by name alone, by what the runners of each language collect by default. `read_lines` reads languages
without a grammar.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

Relation = Literal[
    "equal", "unequal", "below", "above", "in", "not_in", "true", "false", "nothing", "something", "throws"
]
MarkKind = Literal["skip", "sometimes", "elsewhere", "only"]
"""`sometimes`: under a condition; `elsewhere`: under one that names a platform; `only`: it skips all others."""
Strength = Literal[0, 1, 2, 3]
"""0 always holds, 1 asks for something or rules something out, 2 for a part or a bound, 3 for one value."""


def name_set(names: str) -> frozenset[str]:
    """Return the names in a text."""
    return frozenset(names.split())


MUST_FAIL = ("#[should_panic]", "@Test(expected)")
"""Texts of marks on tests that pass when their code fails, whatever else the attribute says."""


class CodeToken(NamedTuple):
    """One token. Brackets, commas and semicolons are left out, as formatters add and remove them."""

    kind: Literal["name", "literal", "sign"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizedPart:
    """A part of a test, with its line, its shortened first line, and its tokens."""

    line: int
    text: str
    words: tuple[CodeToken, ...]

    @property
    def literals(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.words if word.kind == "literal")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.words if word.kind == "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion(TokenizedPart):
    """A condition that must hold for the test to pass, without its failure message."""

    relation: Relation = "true"
    strength: Strength = 1
    tolerance: float = 0.0
    """The allowed difference of a number."""
    guards: int = 0
    """The number of conditions around it within the test."""
    swallowed: bool = False
    """Its failure is caught and ignored."""
    shared: bool = False
    """It stands in a function that the test calls."""
    by: str = ""
    """The function that it stands in, if the test itself calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A line that keeps tests from running, or from counting."""

    line: int
    text: str
    kind: MarkKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Value(TokenizedPart):
    """A name with a value made of literals."""

    name: str

    @property
    def is_constant(self) -> bool:
        return not self.names

    @property
    def is_spelled_out(self) -> bool:
        """Tell whether the value is a literal collection or text, without calls other than of `pytest.param`."""
        texts = " ".join(word.text for word in self.words).replace("pytest . param ()", "").split(" ")
        return "()" not in texts and "." not in texts


class CallSite(NamedTuple):
    """A call that a function makes itself, outside of lambdas and nested functions."""

    name: str
    owner: str = ""
    guards: int = 0
    swallowed: bool = False
    awaited: bool = False
    literals: tuple[str, ...] = ()
    """The literals in its arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteCase:
    """One test, or a function that tests call."""

    name: str
    line: int
    text: str
    words: tuple[CodeToken, ...]
    assertions: tuple[Assertion, ...] = ()
    rows: tuple[Assertion, ...] = ()
    values: tuple[Value, ...] = ()
    marks: tuple[Mark, ...] = ()
    labels: tuple[str, ...] = ()
    """Names that a command may select or deselect it by."""
    calls: tuple[CallSite, ...] = ()
    form: Literal["plain", "async", "other"] = "plain"
    """`other` is a generator or a function that a decorator replaces. A call of it may not run its body."""
    hollow: bool = False
    """It has neither calls nor assertions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """All tests of one file, by their names within it."""

    cases: Mapping[str, SuiteCase] = field(default_factory=dict)
    support: Mapping[str, SuiteCase] = field(default_factory=dict)
    """Functions beside the tests that assert something, or return what is asserted."""
    marks: tuple[Mark, ...] = ()
    """Marks on the file as a whole."""
    values: tuple[Value, ...] = ()
    imports: Mapping[str, str] = field(default_factory=dict)
    """Imported modules and their contents as dotted names, by their names in the file."""


_COLLECTED: dict[str, tuple[str, ...]] = {
    # Stricter patterns come first: a runner may lose a file that moves to a later one.
    "py": (r"(test_.*|.*_test)\.py", r"(tests?|test[A-Z0-9].*|.*_tests)\.py"),
    "js": (r".*[.\-_](test|spec|cy|e2e)\.[cm]?[jt]sx?",),
    "go": (r".*_test\.go",),
    "java": (r"(Test.*|.*(Test|Tests|TestCase|IT))\.(java|kt|groovy|scala)", r".*(Spec|Suite)\.(kt|groovy|scala)"),
    "rb": (r".*_(spec|test)\.rb", r"test_.*\.rb"),
    "php": (r".*Test\.php",),
    "cs": (r".*Tests?\.cs",),
    "c": (r"(test_.*|.*(_test|_unittest|Test|Tests))\.(c|cc|cpp|cxx|m|mm|swift)",),
    "ex": (r".*_test\.exs",),
    "sh": (r".*\.bats|test.*\.(sh|t)|.*[_-]test\.sh",),
}
_FAMILIES = {
    **dict.fromkeys(("js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts"), "js"),
    **dict.fromkeys(("java", "kt", "groovy", "scala"), "java"),
    **dict.fromkeys(("c", "cc", "cpp", "cxx", "m", "mm", "swift"), "c"),
    **dict.fromkeys(("sh", "bats", "t"), "sh"),
    **{suffix: suffix for suffix in ("py", "go", "rb", "php", "cs", "rs")},
    "exs": "ex",
}
_FOLDERS = name_set("tests test __tests__ spec specs e2e testing __snapshots__ testdata integration-tests")
_UNSEEN = name_set("node_modules build dist venv .venv vendor third_party __pycache__ CVS _darcs")
_PROSE = frozenset(["md", "rst", "txt", "adoc"])
_SYSTEMS = "aix android darwin dragonfly freebsd illumos ios js netbsd openbsd plan9 solaris wasip1 windows"
_ARCHITECTURES = "386 arm loong64 mips mips64 mipsle ppc64 ppc64le riscv64 s390x wasm"
_ELSEWHERE = re.compile(rf"_({'|'.join((*_SYSTEMS.split(), *_ARCHITECTURES.split()))})_test\.go$")


@lru_cache(maxsize=65536)
def rank(path: str) -> int:
    """Return how surely runners collect the file: 2 by every habit, 1 by some, 0 by none."""
    folders, name = path.split("/")[:-1], path.rpartition("/")[2]
    family = _FAMILIES.get(name.rpartition(".")[2], "")
    if any(folder in _UNSEEN or folder.startswith(".") for folder in folders):
        return 0
    if family == "go" and (_ELSEWHERE.search(name) or any(p == "testdata" or p[0] == "_" for p in path.split("/"))):
        return 0
    for at, pattern in enumerate(_COLLECTED.get(family, ())):
        if re.fullmatch(pattern, name):
            return 2 - at
    if family == "js" and "__tests__" in folders:
        return 2
    # mocha takes whatever lies in `test`, cargo what lies directly in `tests`.
    loose = (family == "js" and "test" in folders) or (family == "rs" and folders[-1:] == ["tests"])
    return 1 if loose else 0


def is_test(path: str) -> bool:
    """Tell whether the file holds tests."""
    return rank(path) > 0


def beside_tests(path: str) -> bool:
    """Tell whether the file lies where tests do, as their data and helpers do."""
    *folders, name = path.split("/")
    return is_test(path) or name == "conftest.py" or any(folder in _FOLDERS for folder in folders)


def is_code(path: str) -> bool:
    """Tell whether the file is part of the tested code, and neither a test nor prose."""
    return not beside_tests(path) and path.rpartition(".")[2] not in _PROSE


_ASSERTING_LINE = re.compile(
    r"\b(assert\w*|ASSERT_\w+|EXPECT_\w+|REQUIRE\w*|CHECK\w*|XCTAssert\w*|refute\w*|must_\w+|should(Be)?\w*|expect|"
    r"Assert\.\w+|Should\(\)|verify)\b"
)
_SKIPPING_LINE = re.compile(
    r"^\s*(xit|xdescribe|xcontext|xspecify|skip|pending)\b|\bmarkTestSkipped\b|\bmarkTestIncomplete\b|@Ignore\b|@Disabled\b|"
    r"\[(Ignore|Explicit)\b|\bSkip\s*=\s*\"|\bXCTSkip\b|@tag\s+:skip|\bGTEST_SKIP\b|\bDISABLED_\w+|Assert\.(Ignore|Inconclusive)"
)
_CONSTANT_LINE = re.compile(
    r"\b(assert(?:_?[Tt]rue)?|Assert\.(?:Is)?True|XCTAssertTrue|EXPECT_TRUE|ASSERT_TRUE)\s*\(?\s*true\s*\)?\s*;?$"
)
_WORD = re.compile(r"\"[^\"]*\"|'[^']*'|-?\b\d[\w.]*|\b[A-Za-z_]\w*|[^\s\w()\[\],;]+")


def read_lines(text: str) -> Suite:
    """
    Read the file as one single case, line by line.

    Functions and strings are not told apart from other code. So the case only holds how many lines assert something,
    and which ones keep tests from running.
    """
    lines = [(at, line.strip()) for at, line in enumerate(text.split("\n"), 1)]
    code = [(at, line) for at, line in lines if line and not line.startswith(("#", "//", "*", "/*"))]
    assertions = tuple(
        Assertion(line=at, text=line[:120], words=tuple(_words(line)), strength=0 if _CONSTANT_LINE.search(line) else 2)
        for at, line in code
        if _ASSERTING_LINE.search(line)
        and not line.startswith(("use ", "using ", "import ", "require ", "def ", "fun "))
    )
    marks = tuple(Mark(line=at, text=line[:120], kind="skip") for at, line in code if _SKIPPING_LINE.search(line))
    if not code:
        return Suite()
    whole = SuiteCase(name="", line=1, text=code[0][1][:120], words=(), assertions=assertions, marks=marks)
    return Suite(cases={"": whole})


def _words(line: str) -> Iterator[CodeToken]:
    for text in _WORD.findall(line):
        literal = text[0] in "\"'-0123456789" and text != "-"
        name = text[0].isalpha() or text[0] == "_"
        yield CodeToken(kind="literal" if literal else "name" if name else "sign", text=text)
