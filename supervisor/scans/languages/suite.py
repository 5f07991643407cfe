"""What a file of tests holds, whatever its language. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Relation = Literal[
    "equal", "unequal", "below", "above", "in", "not_in", "true", "false", "nothing", "something", "throws"
]
Strength = Literal[0, 1, 2, 3]
"""0 holds whatever the code does; 1 asks for something, or anything but; 2 for a part or a bound; 3 for one value."""


def name_set(names: str) -> frozenset[str]:
    """Names that are written one after the other."""
    return frozenset(names.split())


class CodeToken(NamedTuple):
    """One token. Brackets, commas and semicolons are none: formatters put them in and take them out."""

    kind: Literal["name", "literal", "sign"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """Something that must hold for the test to pass, without the message it fails with."""

    line: int
    text: str
    """Its first line, shortened."""
    words: tuple[CodeToken, ...]
    relation: Relation = "true"
    strength: Strength = 1
    tolerance: float = 0.0
    """By how much a number may be off."""
    guards: int = 0
    """Conditions inside the test that it stands under."""
    swallowed: bool = False
    """What it raises is caught, and nothing comes of it."""
    shared: bool = False
    """It stands in a function that the test calls."""

    @property
    def literals(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.words if word.kind == "literal")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.words if word.kind == "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What keeps tests from being run, or from counting."""

    line: int
    text: str
    kind: Literal["skip", "sometimes", "elsewhere", "only"]
    """`sometimes`: under a condition; `elsewhere`: under one that names a platform; `only`: it skips all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A name that is given a value made of literals."""

    line: int
    text: str
    name: str
    words: tuple[CodeToken, ...]

    @property
    def literals(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.words if word.kind == "literal")

    @property
    def is_constant(self) -> bool:
        return all(word.kind != "name" for word in self.words)

    @property
    def is_spelled_out(self) -> bool:
        """Is it a collection or a text, and nothing that is called for?"""
        return all(word.text not in ("()", ".") for word in self.words)


class CallSite(NamedTuple):
    """A call that stands in a function itself, and neither in a lambda nor in a function within it."""

    name: str
    owner: str = ""
    guards: int = 0
    swallowed: bool = False
    awaited: bool = False


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
    """`other`: a generator, or a function that a decorator replaces: a call of it need not run what it says."""
    hollow: bool = False
    """Nothing in it does anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """All tests of one file, by their names within it."""

    cases: Mapping[str, SuiteCase] = field(default_factory=dict)
    support: Mapping[str, SuiteCase] = field(default_factory=dict)
    """Functions beside the tests that assert something, or that give what is asserted."""
    marks: tuple[Mark, ...] = ()
    """On the file as a whole."""
    values: tuple[Value, ...] = ()
    imports: Mapping[str, str] = field(default_factory=dict)
    """By the names that the file knows them by: modules, and what is imported of modules, with dots between."""
