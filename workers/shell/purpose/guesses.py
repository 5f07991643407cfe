"""A script's invocations where the grammar refuses it: by quotes and operators alone, too many rather than too few."""

import posixpath
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace

from forgepool.workers.shell.parse.script import ShellWord
from forgepool.workers.shell.purpose.invocations import FoundInvocations, Invocation, OpenedByShell, join_path

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
