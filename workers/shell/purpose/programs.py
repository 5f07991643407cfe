"""What well-known programs are for. Tables, and the few whose words decide."""

import re
from collections.abc import Mapping

from forgepool.workers.shell.interpret.known_programs import git_words
from forgepool.workers.shell.purpose.file_access import Action
from forgepool.workers.shell.purpose.guess_words import is_test
from forgepool.workers.shell.purpose.invocations import Invocation


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SEARCHING = _names(
    """
    grep egrep fgrep zgrep rg ag ack find fd fdfind ls tree locate exa eza find_file search_dir search_file
    """
)
MATCHING = frozenset(["grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack"])
"""They leave with 1 where nothing was found."""
COMPARING = frozenset(["diff", "cmp"])
"""They leave with 1 where there is a difference."""
_FILTERS = _names(
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
_BUILDING = _names(
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
_GIT_READING = _names(
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
