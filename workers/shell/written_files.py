"""
The files that a script writes before it may run them: their texts where these stand in the script itself.

A file may have several texts, where it is not known which of the commands that write it run. None is a text that
cannot be known.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from forgepool.workers.shell.language.script import ShellWord, StdinText
from forgepool.workers.shell.language.syntax import Redirection, Simple, name_set
from forgepool.workers.shell.language.words import read_word, regions_in
from forgepool.workers.shell.programs.known_programs import find_written
from forgepool.workers.shell.redirections import find_opened, find_piped_input

_NO_TEXT = name_set("touch mkdir chmod chown chgrp setfacl setfattr rm rmdir unlink mkfifo mknod gcc cc")
"""Programs that write, and give no file a text that a shell or an interpreter could run."""
_FETCHING = frozenset(["curl", "dd", "tee", "wget"])
_OWN = frozenset(["", "cat", "echo", "git", "printf"])
"""Programs whose output the script, or the repository, holds already."""

Texts = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """The output of a simple command that goes into a file."""

    text: str | None = None
    fetched: bool = True
    """Another program made it up."""


def find_printed(simple: Simple) -> Printed:
    """Return what a command prints into the file that it is redirected to."""
    writes = [each for each in simple.redirections if _writes(each)]
    reads = tuple(each for each in simple.redirections if each.operator.raw.startswith("<"))
    program = read_word(simple.words[0]).text if simple.words else ""
    operands = [read_word(word) for word in simple.words[1:]]
    fed = any(each.operator.raw.startswith("<") for each in reads)
    own = program in _OWN and (program != "cat" or ((fed or operands) and all(word.static for word in operands)))
    parts = [
        *(word.parts for word in simple.words),
        *(each.operator.body.parts for each in reads if each.operator.body),
    ]
    given = find_piped_input(replace(simple, redirections=reads)) if len(writes) == 1 and simple.words else None
    text = given.text if isinstance(given, StdinText) else None if simple.words else ""
    return Printed(text=text, fetched=not own or any(map(regions_in, parts)))


def _writes(redirection: Redirection) -> bool:
    """Report whether it sends standard output into a file."""
    return redirection.descriptor in ("", "1") and (find_opened(redirection) or ("read",))[0] == "write"


@dataclass(slots=True, kw_only=True)
class WrittenFiles:
    """The files a script has written so far, by their resolved paths."""

    read_file: Callable[[Path], str | None] | None
    _texts: dict[str, Texts] = field(default_factory=dict)
    _fetched: set[str] = field(default_factory=set)

    def texts_of(self, path: Path) -> Texts | None:
        """Return the texts that the file may have by now; None where the script does not write it."""
        return self._texts.get(os.path.realpath(path))

    def is_fetched(self, path: Path) -> bool:
        """Report whether another program than `echo` and the like made up its text."""
        return os.path.realpath(path) in self._fetched

    def note_redirect(
        self, folder: Path | None, word: ShellWord, printed: Printed, *, surely: bool, appends: bool
    ) -> None:
        """Note a file that the shell opens to write. `surely` is False where the command may not run, or later."""
        if word.text.startswith("/dev/") or not word.static or folder is None:
            return
        path = folder / word.text
        key = os.path.realpath(path)
        before = self._texts.get(key) or self._on_disk(path)
        new: Texts = (printed.text,)
        if appends:
            new = tuple(
                None if text is None or printed.text is None else text + printed.text for text in before or ("",)
            )
        self._texts[key] = new if surely else (*before, *new)
        if printed.fetched:
            self._fetched.add(key)

    def note_command(self, argv: tuple[ShellWord, ...], folder: Path | None) -> None:
        """Note the files that a well-known program writes."""
        program = os.path.basename(argv[0].text)  # noqa: PTH119 - text
        if program in _NO_TEXT:
            return
        for each in find_written(program, argv[1:]):
            if not each.word.static or folder is None:
                continue
            names = [source.text.rstrip("/").rpartition("/")[2] for source in each.beneath if source.static]
            for path in (folder / each.word.text, *(folder / each.word.text / name for name in names)):
                key = os.path.realpath(path)
                self._texts[key] = (None,)
                if program in _FETCHING or any(self.is_fetched(folder / source.text) for source in each.beneath):
                    self._fetched.add(key)

    def _on_disk(self, path: Path) -> Texts:
        try:
            text = None if self.read_file is None else self.read_file(path)
        except FileNotFoundError:
            return ()
        return () if self.read_file is None else (text,)
