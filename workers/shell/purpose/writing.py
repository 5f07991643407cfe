"""Tells which files a program changes, where its words say so."""

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from forgepool.workers.shell.language.script import ShellWord
from forgepool.workers.shell.programs.known_programs import find_written
from forgepool.workers.shell.purpose.file_access import How, Write, patch_writes, python_writes
from forgepool.workers.shell.purpose.invocations import Invocation, join_path
from forgepool.workers.shell.purpose.programs import find_changed_files, git_command, is_python

_HOW: dict[str, How] = {
    **dict.fromkeys(("rm", "unlink", "shred"), "delete"),
    **dict.fromkeys(("cp", "install", "ln", "dd", "rsync"), "create"),
    "mv": "move",
}
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
"""Formatters, each with the options that make it write; one with none always writes."""
_LOOKING = ("--check", "--check-only", "--diff", "-c", "--help", "--version", "--list-different")
_EDITORS = frozenset(["ed", "ex", "red"])
_EVERYTHING = frozenset(["merge", "rebase", "pull", "cherry-pick", "revert", "bisect"])
_GIVEN = re.compile(r"-\w*c")
"""The option before a shell's script that is given as a word."""
_FILE = re.compile(r"[^:]*\.(?!\d)\w{1,6}")


def writes(call: Invocation) -> tuple[Write, ...]:
    """Return the writes of an invocation: by the shell for it, and by itself."""
    return tuple(dict.fromkeys([*_redirected(call), *_by_itself(call), *find_changed_files(call)]))


def is_redirected(call: Invocation) -> bool:
    """Return whether it formats no file, so that at most its own output is written."""
    return not any(_formatted(call))


def changes(call: Invocation) -> bool:
    """Return whether it changes files without naming one: it makes folders, or deletes what it finds."""
    return call.program in ("mkdir", "rmdir") or (
        call.program == "find" and any(word.text == "-delete" for word in call.arguments)
    )


def find_carried_out(call: Invocation) -> tuple[str, str] | None:
    """Return kind and path of a file that it carries out: `python fix.py`, `git apply fix.patch`."""
    operands = [word for word in call.arguments if not word.text.startswith("-")]
    read = next((name for file in call.opened if file.mode == "read" for name in file.names), None)
    if is_python(call.program) and operands and not any(word.text in ("-c", "-m") for word in call.arguments):
        return _carried("python", call, operands[0])
    if call.program in ("bash", "sh", "zsh", "source", "."):
        texts = [word.text for word in call.arguments]
        return _carried("shell", call, operands[0]) if operands and not any(map(_GIVEN.fullmatch, texts)) else None
    if call.program == "git" and git_command(call)[0] in ("apply", "am"):
        return _carried("patch", call, operands[-1]) if len(operands) > 1 else ("patch", read) if read else None
    if call.program == "patch" and read:
        return "patch", read
    if call.words and "/" in call.words[0].text:
        kind = "python" if call.program.endswith(".py") else "shell"
        return _carried(kind, call, call.words[0])
    return None


def _carried(kind: str, call: Invocation, word: ShellWord) -> tuple[str, str] | None:
    names = call.names(word)
    return (kind, names[0]) if names else None


def _redirected(call: Invocation) -> Iterator[Write]:
    for file in call.opened:
        if file.mode == "write":
            text = call.text if call.program in ("cat", "tee") and not file.append else None
            how: How = "shell" if file.append else "create"
            yield from (
                Write(path=name, how=how, characters=None if text is None else len(text))
                for name in file.names or (".",)
            )


def _by_itself(call: Invocation) -> Iterator[Write]:
    program = call.program
    if program == "git":
        yield from _of_git(call)
    elif is_python(program):
        yield from _of_python(call)
    elif program in ("patch", "apply_patch", "applypatch"):
        yield from _of_patch(call)
    elif found := tuple(_formatted(call)):
        yield from found
    elif program in _EDITORS:
        yield from _named(call, call.arguments[-1:], "shell")
    elif program in ("awk", "gawk"):
        printed = (path for word in call.arguments for path in re.findall(r'>\s*"([^"]+)"', word.text))
        yield from (Write(path=join_path(call.folder, path), how="shell") for path in printed)
    elif program not in _NO_TEXT:
        yield from _well_known(call)


def _well_known(call: Invocation) -> Iterator[Write]:
    how = _HOW.get(call.program, "shell")
    found = [each for each in find_written(call.program, call.arguments) if each.word.text != "-"]
    adds = any(word.text in ("-a", "--append", "-ai", "-ia") for word in call.arguments)
    for each in found:
        names = call.names(each.word)
        into = names and names[0].endswith("/") and each.beneath
        if into:
            names = tuple(
                posixpath.join(names[0], posixpath.basename(name)) for word in each.beneath for name in call.names(word)
            )
        if call.program == "tee" and call.text is not None and not adds:
            yield from (Write(path=name, how="create", characters=len(call.text)) for name in names)
        else:
            yield from (Write(path=name, how=how) for name in names or (_folder_of(each.word, call),))


def _folder_of(word: ShellWord, call: Invocation) -> str:
    """Return the folder that holds whatever an unknown word may stand for."""
    folder = posixpath.dirname(word.text)
    return join_path(call.folder, folder) if folder else call.folder or "."


def _named(call: Invocation, words: tuple[ShellWord, ...], how: How) -> Iterator[Write]:
    for word in words:
        yield from (Write(path=name, how=how) for name in call.names(word) or (_folder_of(word, call),))


def _of_python(call: Invocation) -> Iterator[Write]:
    texts = [word.text for word in call.arguments]
    script: str | None = None
    if "-c" in texts[:-1]:
        word = call.arguments[texts.index("-c") + 1]
        script = word.text if word.static else word.written.strip('"')
    elif not [text for text in texts if not text.startswith("-")]:
        script = call.text
    for write in python_writes(script or ""):
        yield Write(path=join_path(call.folder, write.path), how=write.how)


def _of_patch(call: Invocation) -> Iterator[Write]:
    patch = call.text or next((word.text for word in call.arguments if "***" in word.text), "")
    found = patch_writes(patch)
    operands = [
        word for word in call.arguments if word.static and not word.text.startswith("-") and "\n" not in word.text
    ]
    if found:
        yield from (Write(path=join_path(call.folder, each.path), how=each.how) for each in found)
    elif operands and call.program == "patch":
        yield from _named(call, (operands[0],), "shell")
    elif not any(word.text == "--dry-run" for word in call.arguments):
        yield Write(path=call.folder or ".", how="shell")


def _formatted(call: Invocation) -> Iterator[Write]:
    if call.program not in _FORMATTERS and call.program != "ruff":
        return
    texts = [word.text for word in call.arguments]
    needed = _FORMATTERS.get(call.program, ())
    if any(text in _LOOKING for text in texts) or (needed and not any(text in needed for text in texts)):
        return
    if call.program == "ruff" and not (texts[:1] == ["format"] or "--fix" in texts):
        return
    words = call.arguments[1:] if call.program == "ruff" else call.arguments
    operands = tuple(word for word in words if not word.text.startswith("-"))
    yield from _named(call, operands, "shell")


# -- git


def _of_git(call: Invocation) -> Iterator[Write]:
    subcommand, rest = git_command(call)
    if len(call.words) > 2 and call.words[1].text == "-C":
        call = replace(call, folder=join_path(call.folder, call.words[2].text))
    match subcommand:
        case "rm" if "--cached" not in rest:
            yield from _paths(call, _plain(rest), "delete")
        case "mv":
            yield from _paths(call, _plain(rest), "move")
        case "checkout" | "switch" | "restore":
            yield from _checked_out(call, subcommand, rest)
        case "apply" | "am":
            yield from _applied(call, rest)
        case _ if _changes_all(subcommand, rest):
            yield Write(path=call.folder or ".", how="shell")
        case _:
            yield from _well_known(call)


def _applied(call: Invocation, rest: list[str]) -> Iterator[Write]:
    if any(text in ("--check", "--stat", "--numstat") for text in rest):
        return
    found = patch_writes(call.text or "")
    yield from (Write(path=join_path(call.folder, each.path), how="shell") for each in found)
    if not found:
        yield Write(path=call.folder or ".", how="shell")


def _changes_all(subcommand: str, rest: list[str]) -> bool:
    match subcommand:
        case "reset":
            return any(text in ("--hard", "--merge", "--keep") for text in rest)
        case "clean":
            return not any(re.match(r"-[a-z]*n|--dry-run", text) for text in rest)
        case "stash":
            return rest[:1] not in (["list"], ["show"], ["drop"], ["clear"])
    return subcommand in _EVERYTHING


def _checked_out(call: Invocation, subcommand: str, rest: list[str]) -> Iterator[Write]:
    if any(text in ("-b", "-B", "-c", "-C", "--orphan", "--help") for text in rest):
        return
    if subcommand == "restore" and "--staged" in rest and "--worktree" not in rest:
        return
    if "--" in rest:
        yield from _paths(call, rest[rest.index("--") + 1 :], "shell")
        return
    names = _plain(rest, valued=("-s", "--source"))
    if subcommand == "restore" or (names and (names[0] == "." or _FILE.fullmatch(names[0]))):
        yield from _paths(call, names, "shell")
    elif len(names) > 1:
        yield from _paths(call, names[1:], "shell")
    else:
        yield Write(path=call.folder or ".", how="shell")


def _plain(texts: list[str], *, valued: tuple[str, ...] = ()) -> list[str]:
    behind = [False, *(text in valued for text in texts)]
    return [text for text, skip in zip(texts, behind, strict=False) if not skip and not text.startswith("-")]


def _paths(call: Invocation, names: list[str], how: How) -> Iterator[Write]:
    """By their words, so that variables are seen through."""
    words = {word.shown: word for word in call.arguments}
    for name in names:
        yield from _named(call, (words[name],), how) if name in words else ()
