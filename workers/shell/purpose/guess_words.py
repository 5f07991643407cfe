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
_FIND_ACTS = ("-delete", "-exec", "-ok", "-fprint", "-fls")
_GIT_ACTS = ("--output", "--ext-diff", "--textconv", "--open-files", "-O")
_ACTS = {
    "fd": r"-[^-]*[xX]|--exec",
    "rg": r"--pre|--hostname-bin",
    "tree": r"-[^-]*o|--output",
    "less": r"-|\+",
    "date": r"-[^-]*s|--set",
    "file": r"-[^-]*C|--compile",
}
"""Options by which a program that reads does something else."""
_SED_OPTIONS = ("-n", "-E", "-r", "-s", "-nE", "-nr", "-En", "-rn", "--quiet", "--silent", "--regexp-extended")
_SED_SCRIPT = re.compile(r"""["']?(?:(?:\d+|\$|/[^/"'\s]*/)(?:,(?:\+?\d+|\$))?[pdq=];?)+["']?""")
_QUOTED = re.compile(r"""'[^']*'|"[^"$`\\]*\"""")
_HARMLESS = re.compile(r"[0-9&]?>{1,2}[ \t]*/dev/null(?=[\s;|&)]|$)|[0-9]?>&(?:[0-9]|-)")

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
    """
    Whether every program in it is known to only read, and nothing is written into a file.

    What is not understood (a substitution, a script of `sed` or `awk` beyond the plainest) counts as writing.
    """
    bare = _HARMLESS.sub(" ", _QUOTED.sub("''", command))
    if re.search(r"[>`]|\$\(|<\(|\$\{", bare):
        return False
    return all(_reads(words) for words in _parts(_HARMLESS.sub(" ", command)))


def is_test(command: str) -> bool:
    """Whether one of its programs runs tests: `pytest -q`, `cd x && npm test`, `uv run python -m unittest`."""
    return any(_tests(words) for words in _parts(command))


def _parts(command: str) -> list[list[str]]:
    parts = (part.split() for part in re.split(r"&&|\|\||[;|\n]|(?<!>)&(?!\d)", command))
    return [part for part in parts if part]


def _reads(words: list[str]) -> bool:
    program, rest = words[0], words[1:]
    match program:
        case "git":
            return bool(rest) and rest[0] in _READING_GIT and not _any_begins(rest, _GIT_ACTS)
        case "sed":
            return _sed_reads(rest)
        case "awk":
            return not re.search(r"[>|]|system|getline|close", " ".join(rest)) and not _any_begins(rest, ("-", "@"))
        case "sort":
            return not any(re.match(r"--(?:o|c)|-[^-]*[oT]", word) for word in rest)
        case "uniq":
            return len([word for word in rest if not word.startswith("-")]) <= 1
        case "find":
            return not _any_begins(rest, _FIND_ACTS)
        case "fd" | "rg" | "tree" | "less" | "date" | "file":
            return not any(re.match(_ACTS[program], word) for word in rest)
        case _:
            return program in _READING


def _any_begins(words: list[str], with_what: tuple[str, ...]) -> bool:
    return any(word.lstrip("'\"").startswith(with_what) for word in words)


def _sed_reads(words: list[str]) -> bool:
    """`sed -n '10,20p' file`: lines printed or left out by their numbers or a plain pattern, and no other script."""
    options = [word for word in words if word.startswith("-")]
    scripts = [word for word in words if not word.startswith("-")][:1]
    return all(word in _SED_OPTIONS for word in options) and all(_SED_SCRIPT.fullmatch(each) for each in scripts)


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
