"""Which files a program changes, where its words tell."""

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from forgepool.workers.shell.language.script import ShellWord
from forgepool.workers.shell.programs.known_programs import find_written
from forgepool.workers.shell.purpose.file_access import How, Write, patch_writes, python_writes
from forgepool.workers.shell.purpose.invocations import Invocation, join_path
from forgepool.workers.shell.purpose.programs import find_changed_files, git_command, is_python

_HOW: Mapping[str, How] = {"rm": "delete", "unlink": "delete", "shred": "delete", "mv": "move", "cp": "create"}
_HOW_ELSE: Mapping[str, How] = {"install": "create", "ln": "create", "dd": "create", "rsync": "create"}
_NO_TEXT = frozenset(["chmod", "chown", "chgrp", "setfacl", "setfattr", "mkdir", "rmdir", "mkfifo", "mknod"])
_FORMATTERS: Mapping[str, tuple[str, ...]] = {
    "black": (),
    "isort": (),
    "autoflake": ("-i", "--in-place"),
    "autopep8": ("-i", "--in-place", "-a"),
    "yapf": ("-i", "--in-place"),
    "prettier": ("--write", "-w"),
    "eslint": ("--fix",),
    "gofmt": ("-w",),
    "goimports": ("-w",),
    "rustfmt": (),
    "clang-format": ("-i",),
}
"""With the options of which one must be there."""
_LOOKING = ("--check", "--check-only", "--diff", "-c", "--help", "--version", "--list-different")
_EDITORS = frozenset(["ed", "ex", "red"])
_EVERYTHING = frozenset(["merge", "rebase", "pull", "cherry-pick", "revert", "bisect"])
_GIVEN = re.compile(r"-\w*c")
"""How a shell is given its script as a word."""
_FILE = re.compile(r"[^:]*\.(?!\d)\w{1,6}")


def writes(one: Invocation) -> tuple[Write, ...]:
    """By the shell for it, and by itself."""
    return tuple(dict.fromkeys([*_redirected(one), *_by_itself(one), *find_changed_files(one)]))


def is_redirected(one: Invocation) -> bool:
    """Whether it changes no more than the files that its output goes to: those of a compiler, too."""
    return not any(_formatted(one))


def changes(one: Invocation) -> bool:
    """Whether it changes files without naming one: folders made."""
    return one.program in ("mkdir", "rmdir") or (one.program == "find" and _finds_to_delete(one))


def find_carried_out(one: Invocation) -> tuple[str, str] | None:
    """The kind and the path of a file whose text it carries out: `python fix.py`, `git apply fix.patch`."""
    operands = [word for word in one.arguments if not word.text.startswith("-")]
    read = next((name for file in one.opened if file.mode == "read" for name in file.names), None)
    if is_python(one.program) and operands and not any(word.text in ("-c", "-m") for word in one.arguments):
        return _carried("python", one, operands[0])
    if one.program in ("bash", "sh", "zsh", "source", "."):
        texts = [word.text for word in one.arguments]
        return _carried("shell", one, operands[0]) if operands and not any(map(_GIVEN.fullmatch, texts)) else None
    if one.program == "git" and git_command(one)[0] in ("apply", "am"):
        return _carried("patch", one, operands[-1]) if len(operands) > 1 else ("patch", read) if read else None
    if one.program == "patch" and read:
        return "patch", read
    if one.words and "/" in one.words[0].text:
        kind = "python" if one.program.endswith(".py") else "shell"
        return _carried(kind, one, one.words[0])
    return None


def _carried(kind: str, one: Invocation, word: ShellWord) -> tuple[str, str] | None:
    names = one.names(word)
    return (kind, names[0]) if names else None


def _redirected(one: Invocation) -> Iterator[Write]:
    for file in one.opened:
        if file.mode == "write":
            told = one.text if one.program in ("cat", "tee") and not file.append else None
            how: How = "shell" if file.append else "create"
            yield from (Write(path=name, how=how, characters=_length(told)) for name in file.names or (".",))


def _length(text: str | None) -> int | None:
    return None if text is None else len(text)


def _by_itself(one: Invocation) -> Iterator[Write]:
    program = one.program
    if program == "git":
        yield from _of_git(one)
    elif is_python(program):
        yield from _of_python(one)
    elif program in ("patch", "apply_patch", "applypatch"):
        yield from _of_patch(one)
    elif found := tuple(_formatted(one)):
        yield from found
    elif program in _EDITORS:
        yield from _named(one, one.arguments[-1:], "shell")
    elif program in ("awk", "gawk"):
        yield from (Write(path=join_path(one.folder, path), how="shell") for path in _printed(one))
    elif program not in _NO_TEXT:
        yield from _well_known(one)


def _well_known(one: Invocation) -> Iterator[Write]:
    how = {**_HOW, **_HOW_ELSE}.get(one.program, "shell")
    found = [each for each in find_written(one.program, one.arguments) if each.word.text != "-"]
    for each in found:
        names = one.names(each.word)
        into = names and names[0].endswith("/") and each.beneath
        if into:
            names = tuple(
                posixpath.join(names[0], posixpath.basename(name)) for word in each.beneath for name in one.names(word)
            )
        if one.program == "tee" and one.text is not None and not _adds(one):
            yield from (Write(path=name, how="create", characters=len(one.text)) for name in names)
        else:
            yield from (Write(path=name, how=how) for name in names or (_folder_of(each.word, one),))


def _adds(one: Invocation) -> bool:
    return any(word.text in ("-a", "--append", "-ai", "-ia") for word in one.arguments)


def _folder_of(word: ShellWord, one: Invocation) -> str:
    """All that a word may stand for which only the shell knows."""
    folder = posixpath.dirname(word.text)
    return join_path(one.folder, folder) if folder else one.folder or "."


def _named(one: Invocation, words: tuple[ShellWord, ...], how: How) -> Iterator[Write]:
    for word in words:
        yield from (Write(path=name, how=how) for name in one.names(word) or (_folder_of(word, one),))


def _of_python(one: Invocation) -> Iterator[Write]:
    texts = [word.text for word in one.arguments]
    script: str | None = None
    if "-c" in texts[:-1]:
        word = one.arguments[texts.index("-c") + 1]
        script = word.text if word.static else word.written.strip('"')
    elif not [text for text in texts if not text.startswith("-")]:
        script = one.text
    for write in python_writes(script or ""):
        yield Write(path=join_path(one.folder, write.path), how=write.how)


def _of_patch(one: Invocation) -> Iterator[Write]:
    said = one.text or next((word.text for word in one.arguments if "***" in word.text), "")
    found = patch_writes(said)
    operands = [
        word for word in one.arguments if word.static and not word.text.startswith("-") and "\n" not in word.text
    ]
    if found:
        yield from (Write(path=join_path(one.folder, each.path), how=each.how) for each in found)
    elif operands and one.program == "patch":
        yield from _named(one, (operands[0],), "shell")
    elif not any(word.text == "--dry-run" for word in one.arguments):
        yield Write(path=one.folder or ".", how="shell")


def _formatted(one: Invocation) -> Iterator[Write]:
    if one.program not in _FORMATTERS and one.program != "ruff":
        return
    texts = [word.text for word in one.arguments]
    needed = _FORMATTERS.get(one.program, ())
    if any(text in _LOOKING for text in texts) or (needed and not any(text in needed for text in texts)):
        return
    if one.program == "ruff" and not (texts[:1] == ["format"] or "--fix" in texts):
        return
    words = one.arguments[1:] if one.program == "ruff" else one.arguments
    operands = tuple(word for word in words if not word.text.startswith("-"))
    yield from _named(one, operands, "shell")


def _printed(one: Invocation) -> list[str]:
    return [path for word in one.arguments for path in re.findall(r'>\s*"([^"]+)"', word.text)]


def _finds_to_delete(one: Invocation) -> bool:
    return any(word.text == "-delete" for word in one.arguments)


# -- git


def _of_git(one: Invocation) -> Iterator[Write]:
    subcommand, rest = git_command(one)
    if len(one.words) > 2 and one.words[1].text == "-C":
        one = replace(one, folder=join_path(one.folder, one.words[2].text))
    match subcommand:
        case "rm" if "--cached" not in rest:
            yield from _paths(one, _plain(rest), "delete")
        case "mv":
            yield from _paths(one, _plain(rest), "move")
        case "checkout" | "switch" | "restore":
            yield from _checked_out(one, subcommand, rest)
        case "apply" | "am":
            yield from _applied(one, rest)
        case _ if _changes_all(subcommand, rest):
            yield Write(path=one.folder or ".", how="shell")
        case _:
            yield from _well_known(one)


def _applied(one: Invocation, rest: list[str]) -> Iterator[Write]:
    if any(text in ("--check", "--stat", "--numstat") for text in rest):
        return
    found = patch_writes(one.text or "")
    yield from (Write(path=join_path(one.folder, each.path), how="shell") for each in found)
    if not found:
        yield Write(path=one.folder or ".", how="shell")


def _changes_all(subcommand: str, rest: list[str]) -> bool:
    match subcommand:
        case "reset":
            return any(text in ("--hard", "--merge", "--keep") for text in rest)
        case "clean":
            return not any(re.match(r"-[a-z]*n|--dry-run", text) for text in rest)
        case "stash":
            return rest[:1] not in (["list"], ["show"], ["drop"], ["clear"])
    return subcommand in _EVERYTHING


def _checked_out(one: Invocation, subcommand: str, rest: list[str]) -> Iterator[Write]:
    if any(text in ("-b", "-B", "-c", "-C", "--orphan", "--help") for text in rest):
        return
    if subcommand == "restore" and "--staged" in rest and "--worktree" not in rest:
        return
    if "--" in rest:
        yield from _paths(one, rest[rest.index("--") + 1 :], "shell")
        return
    names = _plain(rest, valued=("-s", "--source"))
    if subcommand == "restore" or (names and (names[0] == "." or _FILE.fullmatch(names[0]))):
        yield from _paths(one, names, "shell")
    elif len(names) > 1:
        yield from _paths(one, names[1:], "shell")
    else:
        yield Write(path=one.folder or ".", how="shell")


def _plain(texts: list[str], *, valued: tuple[str, ...] = ()) -> list[str]:
    behind = [False, *(text in valued for text in texts)]
    return [text for text, skip in zip(texts, behind, strict=False) if not skip and not text.startswith("-")]


def _paths(one: Invocation, names: list[str], how: How) -> Iterator[Write]:
    """By their words, so that variables are seen through."""
    words = {word.shown: word for word in one.arguments}
    for name in names:
        yield from _named(one, (words[name],), how) if name in words else ()
