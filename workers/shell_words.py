"""
What a shell command probably is, judged by its words: does it only read, does it run tests?

A guess for judging headway and for finding the output worth keeping. Nothing is allowed or refused by it: that needs
a parsed command, and is the policy's affair.
"""

import posixpath
import re

_READING = set(
    [
        "awk",
        "basename",
        "cat",
        "cd",
        "cut",
        "date",
        "diff",
        "dirname",
        "du",
        "echo",
        "fd",
        "file",
        "find",
        "grep",
        "head",
        "less",
        "ls",
        "nl",
        "pwd",
        "realpath",
        "rg",
        "sort",
        "stat",
        "tail",
        "test",
        "tree",
        "true",
        "type",
        "uniq",
        "wc",
        "which",
    ]
)
_READING_GIT = {"blame", "branch", "diff", "grep", "log", "ls-files", "rev-parse", "shortlog", "show", "status"}
_FIND_ACTS = {"-delete", "-exec", "-execdir", "-ok", "-fprint"}

_TESTERS = set(
    [
        "pytest",
        "py.test",
        "tox",
        "nox",
        "unittest",
        "nose2",
        "jest",
        "vitest",
        "mocha",
        "ava",
        "rspec",
        "phpunit",
        "ctest",
        "nextest",
        "playwright",
        "busted",
    ]
)
_TEST_WORDS = {"test", "tests", "check", "nextest", "verify", "spec"}
_RUNNERS = set(
    [
        "bazel",
        "bun",
        "cargo",
        "composer",
        "deno",
        "dotnet",
        "go",
        "gradle",
        "gradlew",
        "just",
        "make",
        "mix",
        "mvn",
        "mvnw",
        "npm",
        "pnpm",
        "rake",
        "sbt",
        "swift",
        "yarn",
    ]
)
_WRAPPERS = set(
    [
        "env",
        "exec",
        "nice",
        "npx",
        "poetry",
        "pdm",
        "pipenv",
        "python",
        "python3",
        "hatch",
        "rye",
        "run",
        "sudo",
        "time",
        "timeout",
        "uv",
        "bundle",
    ]
)


def reads_only(command: str) -> bool:
    """Whether every program in it only reads, and nothing is written into a file."""
    if re.search(r"(?<![0-9&])>(?!&|>?\s*/dev/null)", command):
        return False
    return all(_reads(words) for words in _parts(command))


def is_test(command: str) -> bool:
    """Whether one of its programs runs tests: `pytest -q`, `cd x && npm test`, `uv run python -m unittest`."""
    return any(_tests(words) for words in _parts(command))


def _parts(command: str) -> list[list[str]]:
    parts = (part.split() for part in re.split(r"&&|\|\||[;|\n]|(?<!>)&(?!\d)", command))
    return [part for part in parts if part]


def _reads(words: list[str]) -> bool:
    if words[0] == "git":
        return len(words) > 1 and words[1] in _READING_GIT
    if words[0] == "sed":
        return not any(word.startswith(("-i", "--in-place")) for word in words)
    return words[0] in _READING and not (words[0] == "find" and _FIND_ACTS & set(words))


def _tests(words: list[str]) -> bool:
    names = [posixpath.basename(word) for word in words]
    while names and (names[0] in _WRAPPERS or re.fullmatch(r"\w+=.*|-\w*|\d+\w?", names[0])):
        names.pop(0)
    if not names:
        return False
    if names[0] in _TESTERS:
        return True
    return names[0] in _RUNNERS and any(_is_test_word(name) for name in names[1:])


def _is_test_word(word: str) -> bool:
    """`test`, `:app:test`, `test:unit`, `//pkg:all_test`."""
    return any(part in _TEST_WORDS for part in re.split(r"[:_-]", word.casefold()))
