"""
What a shell command was for, which lines of which files it showed and which files it changed, from its text alone.

Of a record, not for a permission: what is allowed is the policy's affair. Where nothing can be known of a part of it,
that part is a run; a file that the shell opens to write is never missed.
"""

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from forgepool.workers.shell.language.refusal import Refusal
from forgepool.workers.shell.language.script import ShellWord
from forgepool.workers.shell.purpose import programs
from forgepool.workers.shell.purpose.file_access import Action, Read, Write, normal_path, patch_writes, python_writes
from forgepool.workers.shell.purpose.invocations import (
    FoundInvocations,
    Invocation,
    OpenedByShell,
    invocations,
    join_path,
)
from forgepool.workers.shell.purpose.programs import COMPARING, MATCHING, action, git_command, is_aside
from forgepool.workers.shell.purpose.reading import reads
from forgepool.workers.shell.purpose.writing import changes, find_carried_out, is_redirected, writes

_HEREDOC = re.compile(r"(?<!<)<<(?!<)-?[ \t]*\\?(['\"]?)([\w.!-]+)\1")
_REDIRECTS = re.compile(r"&?>{1,2}[|&]?|<[<>]*&?")
_ENDS = re.compile(r"[;&|()\n]+")
_PLAIN = re.compile(r"[^$`*?\[\]{}~]*")
_BEFORE = re.compile(r"\w+=.*|[!{}]|if|then|else|elif|do|while|until|time")
_NO_FILE = re.compile(r"/dev/(?:null|std.*|tty|fd/.*)|&?\d|-")


def guess_invocations(text: str, folder: str = "") -> FoundInvocations:
    """What stands in quotes is taken for words; where quotes do not match, they are taken for blanks."""
    bare, texts = _without_heredocs(text)
    bodies = iter(texts)
    found: list[Invocation] = []
    for operator, words in _commands(bare):
        one = _invocation(words, folder, bodies)
        if operator in ("|", "|&") and found:
            one = replace(one, fed=True, fed_by=(len(found) - 1,))
            found[-1] = replace(found[-1], seen=False)
        found.append(one)
        if one.program == "cd" and one.arguments:
            folder = posixpath.join(folder, one.arguments[-1].text)
    return FoundInvocations(invocations=tuple(found), bare=bare.strip())


def _without_heredocs(text: str) -> tuple[str, list[str]]:
    """The commands, and what each heredoc holds."""
    lines: list[str] = []
    texts: list[str] = []
    waiting = iter(text.split("\n"))
    for line in waiting:
        lines.append(line)
        for _, delimiter in _HEREDOC.findall(line):
            body = []
            for inside in waiting:
                if inside.strip() == delimiter:
                    break
                body.append(f"{inside}\n")
            texts.append("".join(body))
    return "\n".join(lines), texts


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each with the operator before it."""
    operator, words = "", []
    for token in _tokens(text.replace("\\\n", " ")):
        if not _ENDS.fullmatch(token):
            words.append(token)
            continue
        if words:
            yield operator, words
        operator, words = token.strip(), []
    if words:
        yield operator, words


def _tokens(text: str) -> list[str]:
    for each in (text, re.sub(r"['\"\\]", " ", text)):
        lexer = shlex.shlex(each, posix=True, punctuation_chars=";&|()<>\n")
        lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
        try:
            return list(lexer)
        except ValueError:
            continue
    return text.split()


def _invocation(words: list[str], folder: str, bodies: Iterator[str]) -> Invocation:
    plain: list[str] = []
    files: list[OpenedByShell] = []
    text: str | None = None
    waiting = iter(words)
    for word in waiting:
        if not _REDIRECTS.fullmatch(word):
            plain.append(word)
            continue
        if plain and plain[-1].isdecimal():
            plain.pop()
        target = next(waiting, "")
        if word == "<<":
            text = next(bodies, None)
        elif not _NO_FILE.fullmatch(target) and not word.startswith("<<"):
            files.append(_opened(word, target, folder))
    while plain and _BEFORE.fullmatch(plain[0]):
        plain.pop(0)
    kept = any(file.mode == "write" for file in files)
    return Invocation(words=tuple(map(_word, plain)), folder=folder, opened=tuple(files), text=text, seen=not kept)


def _opened(operator: str, target: str, folder: str) -> OpenedByShell:
    names = (join_path(folder, target),) if target and _PLAIN.fullmatch(target) else ()
    return OpenedByShell(names=names, mode="read" if operator == "<" else "write", append=">>" in operator)


def _word(text: str) -> ShellWord:
    plain = _PLAIN.match(text)
    end = plain.end() if plain else 0
    return ShellWord(text=text[:end], static=end == len(text), written=text)


_RANK: Sequence[Action] = ("write", "test", "build", "search", "read", "end", "run")
_KEPT: frozenset[Action] = frozenset(["test", "build"])
"""Whose output may be kept in a file without that being what it is for."""
_LONGEST = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """A file whose text a command carries out, or has just written."""

    kind: str
    """`python`, `shell` or `patch`; of a text that was written, `new`, or `more` where it was added to the file."""
    path: str
    text: str = ""
    folder: str | None = ""
    """Where it is carried out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandActions:
    action: Action
    reads: tuple[Read, ...] = ()
    writes: tuple[Write, ...] = ()
    bare: str = ""
    """The command without what its heredocs hold."""
    does: frozenset[Action] = frozenset()
    """What each of its parts is for."""
    alone: bool = True
    """One program does all of it: where it fails, nothing was done."""
    asks: bool = False
    """An exit status of 1 says that nothing was found, or that there is a difference."""
    written: tuple[Carried, ...] = ()
    """Texts that it wrote by heredocs."""
    carried: tuple[Carried, ...] = ()
    """Files that it runs or applies; what they write is among the writes where it wrote their text itself."""
    window: programs.Window = ""
    """It reads or writes the file that was opened last."""


def read_command(command: str, *, root: str = "", tests: Sequence[str] = (), folder: str = "") -> CommandActions:
    """
    `root` is the worktree, where the command starts unless it starts in `folder`; `tests` are commands known to be
    tests. Paths are below the worktree where they lie there; without a root they are as the command has them, after
    the folder it went to.
    """
    return _told(command, root, tuple(test for test in tests if test.strip()), folder)


@lru_cache(maxsize=512)
def find_carried_writes(kind: str, text: str, folder: str | None, root: str) -> tuple[Write, ...]:
    """What a file of that text writes where it is run or applied in `folder`."""
    match kind:
        case "python":
            found = python_writes(text)
        case "patch":
            found = patch_writes(text)
        case _:
            return read_command(text, root=root, folder=folder or "").writes
    return tuple(replace(each, path=place_path(join_path(folder, each.path), root)) for each in found)


@lru_cache(maxsize=4096)
def _told(command: str, root: str, tests: tuple[str, ...], folder: str) -> CommandActions:
    if programs.edits_window(command):
        return CommandActions(action="write", bare=command.strip().partition("\n")[0], window="write")
    found = _found(command[:_LONGEST], folder or root)
    acts = _actions(found.invocations)
    act = _first(acts)
    if act != "write" and any(test in command for test in tests):
        act = "test"
    written, carried = tuple(_written(found.invocations, root)), tuple(_carried(found.invocations, root))
    changed = with_carried(_changed(found.invocations, root), carried, _texts(written), root)
    shown = _reads(found.invocations)
    return CommandActions(
        action=act,
        does=frozenset([act, *(each for each in acts if each is not None)]),
        reads=tuple(dict.fromkeys(replace(read, path=place_path(read.path, root)) for read in shown)),
        writes=tuple(dict.fromkeys(changed)),
        bare=found.bare,
        alone=sum(not is_aside(one) for one in found.invocations) <= 1 and len(changed) <= 1 and len(shown) <= 1,
        asks=_asks(found.invocations, acts),
        written=written,
        carried=carried,
        window=next((what for one in found.invocations if (what := programs.window(one))), ""),
    )


def _changed(found: Sequence[Invocation], root: str) -> list[Write]:
    return [replace(write, path=place_path(write.path, root)) for one in found for write in writes(one)]


def _texts(written: Sequence[Carried]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for each in written:
        texts[each.path] = texts.get(each.path, "") * (each.kind == "more") + each.text
    return texts


def with_carried(
    found: Sequence[Write], carried: Sequence[Carried], texts: Mapping[str, str], root: str
) -> list[Write]:
    """And what scripts and patches write whose texts are known; a patch without one may have changed anything."""
    known = [each for each in carried if each.path in texts]
    patched = {place_path(each.folder or ".", root) for each in known if each.kind == "patch"}
    own = (write for each in known for write in find_carried_writes(each.kind, texts[each.path], each.folder, root))
    return [*(write for write in found if write.path not in patched), *own]


def place_path(path: str, root: str) -> str:
    """One spelling for one file, below the worktree where it lies there; the worktree itself is `.`."""
    found = normal_path(path, root)
    return "." if root and found == root.rstrip("/") else found


def _found(command: str, folder: str) -> FoundInvocations:
    try:
        return invocations(command, folder)
    except (Refusal, RecursionError):
        return guess_invocations(command, folder)


def _first(acts: Sequence[Action | None]) -> Action:
    return min((act for act in acts if act is not None), key=_RANK.index, default="run")


def _actions(found: Sequence[Invocation]) -> list[Action | None]:
    acts: list[Action | None] = []
    for one in found:
        given = _first([acts[at] for at in one.fed_by if at < len(acts)]) if one.fed_by else None
        acts.append(_action(one, given))
    return acts


def _action(one: Invocation, given: Action | None) -> Action | None:
    act = action(one, given)
    changed = writes(one)
    kept = (act in _KEPT and is_redirected(one)) or (given in _KEPT and one.program == "tee")
    if (changed or changes(one)) and not kept:
        return "write"
    return None if one.aside and act not in _KEPT else act


def _reads(found: Sequence[Invocation]) -> list[Read]:
    """What is seen in the end, after all that cuts it."""
    flowing: list[tuple[Read, ...]] = []
    seen: list[Read] = []
    for one in found:
        given = [read for at in one.fed_by if at < len(flowing) for read in flowing[at]]
        flowing.append(reads(one, given) or programs.find_shown_files(one))
        if one.seen and not one.aside:
            seen.extend(flowing[-1])
    return seen


def _asks(found: Sequence[Invocation], acts: Sequence[Action | None]) -> bool:
    own = [one for one in found if not is_aside(one)]
    if not own or not _is_asking(own[-1]):
        return False
    return all(act in (None, "read", "search") or is_aside(one) for one, act in zip(found, acts, strict=True))


def _is_asking(one: Invocation) -> bool:
    if one.program == "git":
        subcommand, rest = git_command(one)
        told_apart = any(text in ("--exit-code", "--quiet", "--no-index", "--check") for text in rest)
        return subcommand == "grep" or (subcommand == "diff" and told_apart)
    return one.program in MATCHING | COMPARING


def _written(found: Sequence[Invocation], root: str) -> Iterator[Carried]:
    for one in found:
        text = _said(one)
        for file in one.opened if text is not None else ():
            kind = "more" if file.append else "new"
            if file.mode == "write":
                yield from (Carried(kind=kind, path=place_path(name, root), text=text or "") for name in file.names)


def _said(one: Invocation) -> str | None:
    """What it prints, as far as that stands in the command."""
    if one.program in ("echo", "printf"):
        return " ".join(word.shown for word in one.arguments).replace("\\n", "\n") + "\n"
    return one.text if one.program in ("cat", "tee") else None


def _carried(found: Sequence[Invocation], root: str) -> Iterator[Carried]:
    for one in found:
        if one.words and (file := find_carried_out(one)) is not None:
            yield Carried(kind=file[0], path=place_path(file[1], root), folder=one.folder)
