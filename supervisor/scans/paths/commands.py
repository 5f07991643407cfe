"""Which files of the target a check's commands run or read their settings from."""

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import PurePosixPath

from forgepool.supervisor.gate_file.document import CheckDefinition
from forgepool.supervisor.scans.source.places import beside_tests
from forgepool.worktrees.commits.changes import FileTooLarge, read_file
from forgepool.worktrees.git.git import CommitId, Git

_CUT = re.compile(r"&&|\|\||[;|\n()`]|\$\(")
_WRAPPERS = frozenset(
    ["env", "time", "exec", "nice", "sudo", "xargs", "command", "timeout", "npx", "bunx", "then", "do", "if", "!", "@"]
)
_RUNNERS = frozenset(["poetry", "uv", "pdm", "hatch", "pipenv", "rye", "pixi", "bundle"])
_INTERPRETERS = re.compile(
    r"(python|pypy|node|ruby|perl|php|lua|Rscript|bash|sh|zsh|dash|ksh|deno|bun|tsx|ts-node)[\d.]*|\.|source"
)
_BUILDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("make", "gmake"), ("Makefile", "makefile", "GNUmakefile")),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml", "Taskfile.dist.yml"),
    "tox": ("tox.ini", "tox.toml"),
    "nox": ("noxfile.py",),
    "invoke": ("tasks.py",),
    "inv": ("tasks.py",),
    "rake": ("Rakefile", "rakefile"),
    "doit": ("dodo.py",),
    "mage": ("magefile.go",),
    "bazel": (".bazelrc",),
    "pre-commit": (".pre-commit-config.yaml",),
    **dict.fromkeys(("gulp",), ("gulpfile.js", "gulpfile.mjs")),
    **dict.fromkeys(("grunt",), ("Gruntfile.js",)),
}
_OPTIONS = frozenset(["-c", "-f", "--config", "--config-file", "--rcfile", "--file", "--makefile", "--configuration"])
_MOST_READ = 20
_DEEPEST = 3


def run_by(git: Git, base: CommitId, paths: frozenset[str], checks: Sequence[CheckDefinition]) -> frozenset[str]:
    """
    Files that the commands run or are told to read, and those that their scripts and makefiles run in turn.

    Names under which a build tool looks for its file are among them, also where there is no such file yet.
    """
    found: set[str] = set()
    texts = [text for check in checks for text in (check.run, check.setup or "")]
    for _ in range(_DEEPEST):
        fresh = {path for text in texts for path in _named(text, paths)} - found
        found |= fresh
        texts = [_text(git, base, path) for path in sorted(fresh & paths) if _is_script(path)][:_MOST_READ]
    return frozenset(found)


def words_of(checks: Sequence[CheckDefinition]) -> frozenset[str]:
    """Every word of the checks' commands."""
    return frozenset(word for check in checks for text in (check.run, check.setup or "") for word in _split(text))


def _named(text: str, paths: frozenset[str]) -> Iterator[str]:
    folder = ""
    for part in _CUT.split(text):
        words = _split(part)
        while words and (words[0] in _WRAPPERS or re.match(r"[A-Za-z_]\w*=", words[0]) or words[0].isdigit()):
            words = words[1:]
        if len(words) > 1 and words[0] in _RUNNERS and words[1] in ("run", "exec"):
            words = words[2:]
        if not words:
            continue
        if words[0] == "cd" and len(words) > 1:
            folder = _joined(folder, words[1])
        yield from (path for path in _of_command(words, folder, paths))


def _of_command(words: list[str], folder: str, paths: frozenset[str]) -> Iterator[str]:
    name = words[0].rpartition("/")[2]
    if (own := _joined(folder, words[0])) in paths:
        yield own
    where = _option(words, ("-C", "--directory"))
    for file in _BUILDS.get(name, ()):
        yield _joined(_joined(folder, where), file)
    if _INTERPRETERS.fullmatch(name):
        yield from _interpreted(words[1:], folder, paths)
    for at, word in enumerate(words[1:], 1):
        option, _, value = word.partition("=")
        value = value or (words[at + 1] if at + 1 < len(words) else "")
        if option in _OPTIONS and (path := _joined(folder, value)) in paths:
            yield path


def _interpreted(words: list[str], folder: str, paths: frozenset[str]) -> Iterator[str]:
    """The script that an interpreter is given, or what the script runs that it is given in place of one."""
    for word, after in pairwise([*words, ""]):
        if word == "-m":
            return
        if word == "-c":
            yield from _named(after, paths)
            return
        if (path := _joined(folder, word)) in paths and not word.startswith("-"):
            if not beside_tests(path):
                yield path
            return


def _option(words: list[str], names: tuple[str, ...]) -> str:
    return next((after for word, after in pairwise(words) if word in names), "")


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()


def _joined(folder: str, path: str) -> str:
    if path.startswith("/") or not path:
        return path or folder
    parts: list[str] = []
    for part in PurePosixPath(folder, path).parts:
        if part == ".." and parts:
            parts.pop()
        elif part not in (".", ".."):
            parts.append(part)
    return "/".join(parts)


def _is_script(path: str) -> bool:
    name = path.rpartition("/")[2]
    return (
        "." not in name
        or name.endswith((".sh", ".bash", ".mk"))
        or name.lower() in ("makefile", "gnumakefile", "justfile")
    )


def _text(git: Git, base: CommitId, path: str) -> str:
    try:
        text = (read_file(git, base, path, cap=200_000) or b"").decode(errors="replace")
    except FileTooLarge:
        return ""
    # A recipe's line begins with what make is told, not the shell.
    return "\n".join(line.lstrip("\t @-+") for line in text.split("\n"))
