"""
Commands that cannot fail, recognised from their text: a check of such a command proves nothing.

The policy's shell parser reads them as POSIX shell without `pipefail`, since that is how checks are run. Only certain
cases are reported: `|| true` behind the command, an `exit 0` at the end, a pipeline whose last command answers for all
before it. A program's own exit status is not examined, except for a few options that always make it 0.

Where the parser gives up, only the end of the text is examined.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from forgepool.workers.shell.language.parser import Parser
from forgepool.workers.shell.language.refusal import Refusal, encode
from forgepool.workers.shell.language.scanner import Scanner
from forgepool.workers.shell.language.script import ShellWord
from forgepool.workers.shell.language.syntax import (
    AndOrList,
    Bare,
    Compound,
    Function,
    Hole,
    Pipeline,
    Region,
    Sequence,
    Simple,
    Statement,
    Token,
)
from forgepool.workers.shell.language.words import read_word

_HARMLESS = frozenset(["true", ":", "echo", "printf", "export", "readonly", "set", "trap", "umask", "unset"])
"""End well, as they are written by people."""
_PASSING = frozenset(["tee", "tail", "head", "cat", "sort", "uniq", "less", "more", "wc", "tr", "cut", "column", "ts"])
"""Last of a pipeline, they end well whatever became of the command before."""
_TOLD_TO_END_WELL = {
    "flake8": ("--exit-zero",),
    "make": ("-i", "--ignore-errors", "-n", "--dry-run"),
    "pylint": ("--exit-zero",),
    "ruff": ("--exit-zero", "-e"),
}
_SHELLS = frozenset(["sh", "bash", "dash", "zsh", "/bin/sh", "/bin/bash"])
_END = re.compile(r"(?:\|\||;|\n)\s*(?:true|:|exit\s+0)\s*;?\s*$")
_MOST_WITHIN = 8


def why_unfailing(script: str) -> str | None:
    """Why the script cannot end with another status than 0, to be read after its name; None when it can."""
    try:
        answer = _Reading().of_text(script)
    except (Refusal, RecursionError):
        return "it ends well whatever became of what it runs" if _END.search(script) else None
    if answer.fails or answer.leaves:
        return None
    return answer.why or "it ends well whatever became of what it runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """The possible outcomes of a statement."""

    fails: bool
    """Its status may be another than 0."""
    leaves: bool = False
    """It may end the script with another status than 0."""
    ends: bool = False
    """True if the code behind it is never run."""
    why: str = ""


@dataclass(slots=True, kw_only=True)
class _Reading:
    """The knowledge at the place where a statement stands."""

    errexit: bool = False
    pipefail: bool = False
    before: bool = False
    """The status of what was run before may be another than 0."""
    negated: set[int] = field(default_factory=set)
    functions: dict[str, Statement] = field(default_factory=dict)
    within: int = 0
    overruled: str = ""
    """Why the script's end is not its own: a trap."""

    def of_text(self, script: str) -> _Answer:
        region = Scanner(encode(script)).read()
        self.negated |= _behind_negations(region)
        sequence = Parser(region).parse()
        if not sequence.parts:
            return _Answer(fails=False, why="it holds no command")
        answer = self.of(sequence)
        return _Answer(fails=False, why=self.overruled) if self.overruled else answer

    def of(self, statement: Statement) -> _Answer:
        match statement:
            case Simple():
                return self._simple(statement)
            case Bare():
                return _Answer(fails=True)
            case Pipeline(parts=parts):
                return self._pipeline(parts)
            case AndOrList():
                return self._chain(statement)
            case Sequence():
                return self._sequence(statement)
            case Compound():
                return self._compound(statement)
            case Function(name=name, body=body):
                self.functions[name] = body
                return _Answer(fails=False)

    def _sequence(self, sequence: Sequence) -> _Answer:
        leaves, answer = False, _Answer(fails=False, why="it holds no command")
        for statement, background in zip(sequence.parts, sequence.background, strict=True):
            answer = self.of(statement)
            if background:
                answer = _Answer(fails=False, why="its last command is left in the background")
            leaves |= answer.leaves or (self.errexit and answer.fails)
            self.before = answer.fails
            if answer.ends:
                break
        return replace(answer, leaves=leaves)

    def _chain(self, chain: AndOrList) -> _Answer:
        answer = self._tested(chain.parts[0], True)
        for number, (operator, part) in enumerate(zip(chain.operators, chain.parts[1:], strict=True), start=2):
            self.before = answer.fails
            following = self._tested(part, number < len(chain.parts))
            reached = operator == "&&" or answer.fails
            answer = _Answer(
                fails=answer.fails or following.fails if operator == "&&" else answer.fails and following.fails,
                leaves=answer.leaves or (reached and following.leaves),
                ends=answer.ends or (operator == "&&" and not answer.fails and following.ends),
                why=f"`{operator} {_shown(part)}` makes it end well" if operator == "||" else following.why,
            )
        return answer

    def _tested(self, statement: Statement, tested: bool) -> _Answer:
        """Note that a statement before `&&` or `||` does not end the script by itself."""
        errexit, self.errexit = self.errexit, self.errexit and not tested
        answer = self.of(statement)
        self.errexit = errexit
        return answer

    def _pipeline(self, parts: tuple[Statement, ...]) -> _Answer:
        """Each part is a shell of its own."""
        answers = [self._apart(part) for part in parts]
        if self.pipefail:
            return _Answer(fails=any(answer.fails for answer in answers))
        last = parts[-1]
        program = _program(last)
        if program in _PASSING and answers[-1].fails:
            why = f"its status is that of `{_shown(last)}`, the last of the pipeline"
            return _Answer(fails=False, why=f"{why}; write `bash -o pipefail -c` around it")
        return replace(answers[-1], why=answers[-1].why or f"its status is that of `{_shown(last)}` alone")

    def _apart(self, statement: Statement) -> _Answer:
        inside = replace(self, functions=dict(self.functions), negated=self.negated)
        answer = inside.of(statement)
        return _Answer(fails=answer.fails or answer.leaves, why=answer.why)

    def _compound(self, compound: Compound) -> _Answer:
        match compound.kind:
            case "{":
                return self.of(compound.parts[0])
            case "(":
                return self._apart(compound.parts[0])
            case "if":
                return self._branches(compound.parts[:-1:2], compound.parts[1::2], compound.parts)
            case "case":
                return self._either(compound.parts)
            case "for":
                return self._either(compound.parts)
            case "while":
                condition, body = compound.parts
                return self._branches((condition,), (body,), compound.parts)

    def _branches(
        self, conditions: tuple[Sequence, ...], bodies: tuple[Sequence, ...], parts: tuple[Sequence, ...]
    ) -> _Answer:
        """A condition that is not met is no failure."""
        tested = [self._tested(condition, True) for condition in conditions]
        last = parts[-1:] if len(parts) % 2 else ()
        answer = self._either((*bodies, *last))
        return replace(answer, leaves=answer.leaves or any(one.leaves for one in tested))

    def _either(self, bodies: tuple[Sequence, ...]) -> _Answer:
        answers = [self.of(body) for body in bodies]
        fails = any(answer.fails for answer in answers)
        return _Answer(fails=fails, leaves=any(answer.leaves for answer in answers), why="none of its branches fails")

    def _simple(self, simple: Simple) -> _Answer:
        first = (*simple.assignments, *simple.words)[:1]
        negated = bool(first) and first[0].start in self.negated
        words = tuple(read_word(word) for word in simple.words)
        answer = self._command(words) if words else _Answer(fails=_substitutes(simple.assignments))
        return _Answer(fails=True) if negated and not answer.ends else answer

    def _command(self, words: tuple[ShellWord, ...]) -> _Answer:
        program = words[0].text if words[0].static else ""
        if program in ("exit", "return"):
            return self._left(words[1:])
        if program == "set":
            self._set(words[1:])
        if program == "trap":
            self._trapped(words[1:])
        if program in _HARMLESS:
            return _Answer(fails=False, why=f"`{_said(words)}` is all that decides it")
        if program in self.functions and self.within < _MOST_WITHIN:
            self.within += 1
            answer = self.of(self.functions[program])
            self.within -= 1
            return answer
        if program in _SHELLS and (text := _text_of(words[1:])) is not None:
            return self._shell(*text)
        for option in _TOLD_TO_END_WELL.get(program.rpartition("/")[2], ()):
            if any(word.static and word.text == option for word in words[1:]):
                return _Answer(fails=False, why=f"`{option}` makes {program} end well in any case")
        return _Answer(fails=True, leaves=program == "exec", ends=program == "exec")

    def _left(self, words: tuple[ShellWord, ...]) -> _Answer:
        if not words:
            return _Answer(fails=False, leaves=self.before, ends=True, why="`exit` behind what ends well is all of it")
        well = words[0].static and words[0].text == "0"
        return _Answer(fails=False, leaves=not well, ends=True, why="it ends by `exit 0`")

    def _set(self, words: tuple[ShellWord, ...]) -> None:
        texts = [word.text for word in words if word.static]
        for text, following in pairwise((*texts, "")):
            on = text.startswith("-")
            if text[:1] not in ("-", "+") or text == "--":
                continue
            named = following if text.endswith("o") else ""
            if "e" in text[1:] or named == "errexit":
                self.errexit = on
            if named == "pipefail":
                self.pipefail = on

    def _trapped(self, words: tuple[ShellWord, ...]) -> None:
        at_exit = any(word.text in ("EXIT", "0") for word in words[1:])
        if at_exit and words[0].static and re.search(r"\bexit\s+0\b", words[0].text):
            self.overruled = "its trap at EXIT ends it by `exit 0`"

    def _shell(self, script: str, options: str) -> _Answer:
        if self.within >= _MOST_WITHIN:
            return _Answer(fails=True)
        inner = _Reading(errexit="e" in options, pipefail="pipefail" in options, within=self.within + 1)
        answer = inner.of_text(script)
        return _Answer(fails=answer.fails or answer.leaves, why=answer.why)


def _behind_negations(region: Region) -> set[int]:
    """Return where the text behind each `!` begins."""
    return {after.start for token, after in pairwise(region.tokens) if token.kind == "word" and token.raw == "!"}


def _substitutes(assignments: tuple[Token, ...]) -> bool:
    """`A=$(make test)` ends as the command in it."""
    return any(isinstance(part, Hole) and part.kind == "command" for token in assignments for part in token.parts)


def _text_of(words: tuple[ShellWord, ...]) -> tuple[str, str] | None:
    """The script of `bash -euo pipefail -c 'SCRIPT'`, and all its options; None where there is none that is known."""
    options: list[str] = []
    following = iter(words)
    for word in following:
        if not word.static or not word.text.startswith("-"):
            return None
        options.append(word.text)
        if word.text.endswith("o"):
            options.append(next((each.text for each in following), ""))
        elif "c" in word.text and not word.text.startswith("--"):
            script = next(following, None)
            return (script.text, _letters(options)) if script is not None and script.static else None
    return None


def _letters(options: list[str]) -> str:
    """Return the letters of one-dash options and the names after `-o`; `errexit` has an `e`, as `-e` has."""
    return " ".join(each if each == "pipefail" else each.replace("pipefail", "") for each in options)


def _program(statement: Statement) -> str:
    if not isinstance(statement, Simple) or not statement.words:
        return ""
    word = read_word(statement.words[0])
    return word.text.rpartition("/")[2] if word.static else ""


def _shown(statement: Statement) -> str:
    return " ".join(_raws(statement)) or "..."


def _raws(statement: Statement) -> Iterator[str]:
    if isinstance(statement, Simple):
        yield from (token.raw for token in (*statement.assignments, *statement.words))


def _said(words: tuple[ShellWord, ...]) -> str:
    return " ".join(word.shown for word in words)
