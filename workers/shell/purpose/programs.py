"""What well-known programs are for. Tables, and the few whose words decide."""

import posixpath
import re
from collections.abc import Mapping
from typing import Literal

from forgepool.workers.shell.language.syntax import name_set
from forgepool.workers.shell.programs.known_programs import git_words
from forgepool.workers.shell.purpose.file_access import Action, How, Read, Write
from forgepool.workers.shell.purpose.invocations import Invocation

_ONLY_READING = name_set(
    """
    awk basename cat cd cut date diff dirname du echo fd file find grep head less ls nl pwd realpath rg sort
    stat tail test tree true type uniq wc which
    """
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

_TESTERS = name_set(
    """
    pytest py.test tox nox unittest nose2 jest vitest mocha ava rspec phpunit ctest nextest playwright busted
    """
)
_TEST_WORDS = {"test", "tests", "check", "nextest", "verify", "spec"}
_RUNNERS = name_set(
    """
    bazel bun cargo composer deno dotnet go gradle gradlew just make mix mvn mvnw npm pnpm rake sbt swift
    yarn
    """
)
_WRAPPERS = name_set(
    """
    env exec nice npx poetry pdm pipenv python python3 hatch rye run sudo time timeout uv bundle
    """
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
            return program in _ONLY_READING


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


_SEARCHING = name_set(
    """
    grep egrep fgrep zgrep rg ag ack find fd fdfind ls tree locate exa eza find_file search_dir search_file
    """
)
MATCHING = frozenset(["grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack"])
"""They leave with 1 where nothing was found."""
COMPARING = frozenset(["diff", "cmp"])
"""They leave with 1 where there is a difference."""
_FILTERS = name_set(
    """
    awk bat cat column cut fold gawk head jq less more nl rev sed sort tac tail tee tr uniq wc xxd yq od hexdump
    strings
    """
)
_READING = (
    (_FILTERS - {"tr", "tee"})
    | COMPARING
    | {
        "batcat",
        "du",
        "file",
        "stat",
        "zcat",
        "open",
        "goto",
        "scroll_up",
        "scroll_down",
        "readlink",
        "md5sum",
        "sha256sum",
    }
)
_BUILDING = name_set(
    """
    make gmake cmake ninja meson gcc g++ cc c++ clang clang++ rustc javac kotlinc scalac ghc tsc sphinx-build
    mkdocs webpack rollup esbuild msbuild xcodebuild ant mypy pyright ruff flake8 pylint eslint golangci-lint
    shellcheck pre-commit compileall py_compile build sphinx pyflakes pycodestyle vue-tsc biome staticcheck
    """
)
"""The modules that `python -m` builds with are among them."""
_BUILDING_BY_WORD: Mapping[str, frozenset[str]] = {
    "cargo": frozenset(["b", "build", "clippy", "doc", "rustc"]),
    "go": frozenset(["build", "generate", "install", "vet"]),
    "gradle": frozenset(["assemble", "build", "classes", "compileJava"]),
    "mvn": frozenset(["compile", "install", "package"]),
    "dotnet": frozenset(["build", "publish"]),
    "docker": frozenset(["build"]),
    "bazel": frozenset(["build"]),
    "swift": frozenset(["build"]),
    "mix": frozenset(["compile"]),
    "stack": frozenset(["build"]),
    "cabal": frozenset(["build"]),
    "zig": frozenset(["build"]),
    "vite": frozenset(["build"]),
    "next": frozenset(["build"]),
    "just": frozenset(["build"]),
    "pip": frozenset(["wheel"]),
}
_SCRIPTED = frozenset(["npm", "pnpm", "yarn", "bun", "deno"])
_BUILD_SCRIPT = re.compile(r"(?:build|compile|lint|type-?check|tsc|check-types)(?:[:_-].*)?")
_SETUP = frozenset(["build", "build_ext", "build_py", "develop", "install", "bdist_wheel", "sdist"])
_GIT_READING = name_set(
    """
    blame branch cat-file describe diff log ls-tree reflog remote rev-parse shortlog show status whatchanged
    rev-list merge-base show-ref name-rev
    """
)
_TEST_SCRIPT = re.compile(r"(?:(?:.*/)?run_?tests?(?:\.\w+)?|.*/(?:tests?|doctest|test\.sh)|test\.sh)")
_INTERPRETERS = re.compile(r"(?:python|pypy)[\d.]*")
_SAFE = re.compile(r"[\w./:=@+,-]+", re.ASCII)
_NO_PART = frozenset(["cd", "echo", "export", "set", "true", "pushd", "popd", "source", ".", "printf", "pwd", ":"])


def is_python(program: str) -> bool:
    return _INTERPRETERS.fullmatch(program) is not None


def is_aside(one: Invocation) -> bool:
    """It only prepares for others, or says something between them."""
    return one.wraps or one.aside or not one.words or one.program in _NO_PART


def git_command(one: Invocation) -> tuple[str, list[str]]:
    """Its subcommand and the words after it."""
    words, _ = git_words(one.arguments)
    texts = [word.shown for word in words]
    return (texts[0], texts[1:]) if texts else ("", [])


def action(one: Invocation, given: Action | None) -> Action | None:
    """
    What it is for, but for what it writes; None where it has no part of its own. `given` is what those are for whose
    output it is fed.
    """
    if not one.words or (one.wraps and one.program != "find"):
        return None
    if one.fed and one.program in _FILTERS | MATCHING and not _names_files(one):
        return "search" if one.program in MATCHING and given in ("read", "search") else None
    if one.program in ("submit", "str_replace_editor"):
        return "end" if one.program == "submit" else "read"
    if tests(one):
        return "test"
    if builds(one):
        return "build"
    if one.program == "git":
        return _git_action(one)
    if one.program in _SEARCHING:
        return "search"
    return "read" if one.program in _READING and (_names_files(one) or one.opened) else "run"


def _names_files(one: Invocation) -> bool:
    """A filter's own files, beside its script."""
    operands = sum(not word.text.startswith("-") or word.text == "-" for word in one.arguments)
    if one.program in ("head", "tail"):
        operands -= sum(re.fullmatch(r"\+?\d+", word.text) is not None for word in one.arguments)
    own = 1 if one.program in MATCHING | {"sed", "awk", "gawk", "jq", "yq"} else 0
    return operands > own or (
        one.program in MATCHING and any(word.text in ("-r", "-R", "-rn", "-nr") for word in one.arguments)
    )


def tests(one: Invocation) -> bool:
    texts = [word.text if word.static and _SAFE.fullmatch(word.text) else "_" for word in one.words]
    if is_test(" ".join(texts)):
        return True
    words = texts[1:] if is_python(one.program) or one.program in ("bash", "sh") else texts
    words = words[1:] if words[:1] == ["-m"] else words
    if not words:
        return False
    if _TEST_SCRIPT.fullmatch(words[0]) or words[0] == "doctest":
        return True
    scripted = ("manage.py", "django", "django-admin", "setup.py")
    return words[0].rpartition("/")[2] in scripted and words[1:2] in (["test"], ["pytest"])


def builds(one: Invocation) -> bool:
    texts = [word.text for word in one.arguments]
    if is_python(one.program):
        return _python_builds(texts)
    if one.program in _SCRIPTED:
        words = [text for text in texts if text != "run" and not text.startswith("-")]
        return bool(words) and _BUILD_SCRIPT.fullmatch(words[0]) is not None
    if one.program == "ruff":
        return texts[:1] != ["format"]
    known = _BUILDING_BY_WORD.get(one.program.removesuffix("w"), frozenset())
    return one.program in _BUILDING or any(text in known for text in texts)


def _python_builds(texts: list[str]) -> bool:
    if texts[:1] == ["-m"] and len(texts) > 1:
        return texts[1] in _BUILDING
    return bool(texts) and texts[0].rpartition("/")[2] == "setup.py" and any(text in _SETUP for text in texts)


def _git_action(one: Invocation) -> Action:
    subcommand, rest = git_command(one)
    if subcommand in ("grep", "ls-files"):
        return "search"
    if subcommand == "stash" and rest[:1] in (["list"], ["show"]):
        return "read"
    return "read" if subcommand in _GIT_READING else "run"


Window = Literal["", "read", "write"]
_EDITED = re.compile(r"\s*(?:edit|insert)[ \t]+(?:\d+(?::\d+)?[ \t]*\n|\d+:\d+[ \t]*<<|<<)")
_HOW: dict[str, How] = {"create": "create", "str_replace": "edit", "insert": "edit", "undo_edit": "edit"}


def edits_window(command: str) -> bool:
    """`edit 10:12`, the new lines, `end_of_edit`: no shell's language."""
    return _EDITED.match(command) is not None


def window(one: Invocation) -> Window:
    if one.program in ("goto", "scroll_up", "scroll_down"):
        return "read"
    return "write" if one.program == "edit" and one.arguments else ""


def find_shown_files(one: Invocation) -> tuple[Read, ...]:
    """Of `open FILE [LINE]` and `str_replace_editor view FILE [--view_range FROM TO]`."""
    texts = [word.text for word in one.arguments]
    if one.program == "open" and one.arguments:
        return tuple(Read(path=name, part=True) for name in one.names(one.arguments[0]))
    if one.program == "str_replace_editor" and texts[:1] == ["view"] and len(texts) > 1:
        span = texts[texts.index("--view_range") + 1 :][:2] if "--view_range" in texts else []
        first, last = (int(text) if re.fullmatch(r"\d+", text) else None for text in (*span, "", "")[:2])
        return tuple(Read(path=name, first=first, last=last) for name in one.names(one.arguments[1]))
    return ()


def find_changed_files(one: Invocation) -> tuple[Write, ...]:
    texts = [word.text for word in one.arguments]
    if one.program == "create" and one.arguments:
        return tuple(Write(path=name, how="create") for name in one.names(one.arguments[0]))
    if one.program == "str_replace_editor" and len(texts) > 1 and texts[0] in _HOW:
        return tuple(Write(path=name, how=_HOW[texts[0]]) for name in one.names(one.arguments[1]))
    return ()
