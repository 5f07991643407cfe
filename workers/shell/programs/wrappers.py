"""Programs and builtins that run another command: how what they run is found in their words."""

import re
from collections.abc import Callable, Iterator, Mapping

from forgepool.workers.shell.language.refusal import refuse
from forgepool.workers.shell.language.script import STAYS, Effect, RunsCommand, Sets, ShellWord
from forgepool.workers.shell.language.syntax import RESERVED
from forgepool.workers.shell.language.words import is_plain_name
from forgepool.workers.shell.programs.options import Option, ProgramOptions, options, split_options

Argv = tuple[ShellWord, ...]
Unwrap = Callable[[Argv], tuple[Effect, ...]]

_PLAIN_SPLIT = re.compile(r"[\w./:=,@%+ -]*", re.ASCII)
_ENV = options("i0v", "uCS", long="ignore-environment null debug", long_valued="unset chdir split-string", alone="-")
_SUDO = options(
    "nEHSkbAKPB",
    "ugpCTRD",
    long="non-interactive preserve-env set-home stdin background askpass reset-timestamp",
    long_valued="user group prompt close-from chdir chroot command-timeout",
)
_XARGS = options(
    "0rtpxo",
    "nPLIdasE",
    optional="ile",
    long="null no-run-if-empty verbose interactive exit open-tty",
    long_valued="max-args max-procs delimiter arg-file max-chars process-slot-var",
)
_FIND_RUNS = frozenset(["-exec", "-execdir", "-ok", "-okdir"])
_NO_PROGRAM = frozenset(["-", "(", ")", "!", ",", ";"])
"""How no program's name begins that is looked up, and find's own words do."""
_SCHEDULED = options("bfiordRavm", "TPD", long="batch fifo idle other rr deadline reset-on-fork all-tasks verbose max")
_DYNAMIC = ShellWord(text="", static=False, several=True, written="...")


def unwrap_plain(table: ProgramOptions, operands: int = 0) -> Unwrap:
    """Options, so many operands of its own, then the command."""

    def unwrap(argv: Argv) -> tuple[Effect, ...]:
        _, rest = split_options(argv, table)
        _check_operands(argv[0], rest[:operands])
        return _runs(rest[operands:])

    return unwrap


def unwrap_env(argv: Argv) -> tuple[Effect, ...]:
    found, rest = split_options(argv, _ENV)
    _check_split(argv, found, rest)
    folder: ShellWord | None = STAYS
    for option in found:
        if option.name in ("C", "chdir"):
            folder = option.value if option.value is not None and option.value.static else None
        elif option.name in ("S", "split-string"):
            rest = (*_split(option.value), *rest)
    return _with_settings(argv[0], rest, folder)


def _check_split(argv: Argv, found: list[Option], rest: Argv) -> None:
    """What -S holds stands in its place: options behind it would not be env's own."""
    splits = [option for option in found if option.name in ("S", "split-string")]
    if not splits:
        return
    ended = argv[len(argv) - len(rest) - 1].text == "--"
    text = splits[0].value.text if splits[0].value is not None else ""
    if len(splits) > 1 or found[-1] is not splits[0] or ended or text.lstrip().startswith("-"):
        refuse("env -S stands among other options", "run the program without env -S")


def unwrap_sudo(argv: Argv) -> tuple[Effect, ...]:
    found, rest = split_options(argv, _SUDO)
    elsewhere = any(option.name in ("D", "R", "chdir", "chroot") for option in found)
    return _with_settings(argv[0], rest, None if elsewhere else STAYS)


def unwrap_nice(argv: Argv) -> tuple[Effect, ...]:
    if len(argv) > 1 and argv[1].static and re.fullmatch(r"-{1,2}[0-9]+", argv[1].text):
        argv = (argv[0], *argv[2:])
    _, rest = split_options(argv, options("", "n", long_valued="adjustment"))
    return _runs(rest)


def unwrap_command(argv: Argv) -> tuple[Effect, ...]:
    found, rest = split_options(argv, options("pvV"))
    if rest and rest[0].text in RESERVED - {"time"}:
        refuse(f"{rest[0].text!r} is a word of the shell, and no program for command", "leave command out")
    return () if any(option.name in "vV" for option in found) else _runs(rest, external=False)


def unwrap_builtin(argv: Argv) -> tuple[Effect, ...]:
    _, rest = split_options(argv, options())
    return _runs(rest, external=False)


def unwrap_xargs(argv: Argv) -> tuple[Effect, ...]:
    found, rest = split_options(argv, _XARGS)
    marks = [option.value.text if option.value else "{}" for option in found if option.name in ("I", "i")]
    if any(option.value is not None and not option.value.static for option in found if option.name in ("I",)):
        refuse("what xargs replaces is not known", "write xargs -I{} out")
    if not rest:
        return ()
    if not marks:
        return (RunsCommand(argv=(*rest, _DYNAMIC), fed=False),)
    replaced = RunsCommand(argv=tuple(_without(word, marks[-1]) for word in rest), fed=False)
    if not any(option.name in ("n", "L", "max-args") for option in found):
        return (replaced,)
    # GNU's own rule: of -I and these, the last one counts, and without -I the words come at the end.
    return replaced, RunsCommand(argv=(*rest, _DYNAMIC), fed=False)


def unwrap_find(argv: Argv) -> tuple[Effect, ...]:
    """Each `-exec ... ;` and its kin; what it runs may be anywhere with `-execdir`."""
    for word in argv[1:]:
        if word.several and (not word.text or word.text[0] in "-(!,)" or "$" in word.written):
            refuse(
                f"find is given {word.shown!r}, which may be some of its actions",
                "put variables into quotes, and write ./*.x for *.x",
            )
    found: list[Effect] = []
    inside = loose = False
    for at, word in enumerate(argv[1:], start=1):
        if word.static and word.text in _FIND_RUNS:
            # Within another one, too: that one may be the pattern of a -name, or be ended by a word that is not known.
            found.append(_find_run(word.text, argv[at + 1 : _find_end(argv, at + 1)]))
            inside, loose = True, False
        elif word.static:
            inside = inside and not _ends_run(argv, at)
        elif inside and not loose:
            loose = not word.text
        elif not word.text or word.text.startswith("-"):
            found.extend(_find_perhaps(word, argv[at + 1 :]))
    return tuple(found)


def _find_perhaps(action: ShellWord, words: Argv) -> Iterator[Effect]:
    """What is run where a word that is not known is an `-exec`; nothing where none could begin or end there."""
    if not words or (words[0].static and words[0].text[:1] in _NO_PROGRAM):
        return
    ends = [at for at in range(1, len(words)) if _ends_run(words, at) or not (words[at].static or words[at].text)]
    if not ends:
        return
    if not words[0].static or words[0].text == "{}":
        refuse(f"find is given {action.shown!r}, which may be an -exec", "write out what find is to look for")
    yield _find_run("-exec", words[: ends[-1]])


def _ends_run(argv: Argv, at: int) -> bool:
    text = argv[at].text if argv[at].static else ""
    return text == ";" or (text == "+" and argv[at - 1].text == "{}")


def _find_end(argv: Argv, start: int) -> int:
    for at in range(start, len(argv)):
        if _ends_run(argv, at):
            return at
    return refuse("a find -exec is not ended", "end it by \\; or +")


def _find_run(action: str, words: Argv) -> Effect:
    if not words:
        refuse(f"a find {action} has no command", "name the program")
    folder = None if action in ("-execdir", "-okdir") else STAYS
    return RunsCommand(argv=tuple(_without(word, "{}") for word in words), folder=folder, fed=False)


def _without(word: ShellWord, mark: str) -> ShellWord:
    """The word as it is once something not known stands for the mark."""
    if not mark or mark not in word.text:
        return word
    return ShellWord(text=word.text[: word.text.index(mark)], static=False, several=word.several, written=word.written)


def _with_settings(program: ShellWord, rest: Argv, folder: ShellWord | None) -> tuple[Effect, ...]:
    """`NAME=value ... program words`, as env and sudo take it."""
    effects: list[Effect] = []
    for index, word in enumerate(rest):
        name, equals, value = word.text.partition("=")
        if not equals:
            if not word.static:
                refuse(f"{program.shown} is given {word.shown!r}, which may be a program", "write the program out")
            return (*effects, *_runs(rest[index:], folder=folder))
        if not is_plain_name(name) or word.several:
            refuse(f"{program.shown} sets {word.shown!r}, which is no plain variable", 'set NAME="value"')
        written = word.written.partition("=")[2]
        effects.append(Sets(name=name, value=ShellWord(text=value, static=word.static, written=written)))
    return tuple(effects)


def _runs(words: Argv, *, folder: ShellWord | None = STAYS, external: bool = True) -> tuple[Effect, ...]:
    return (RunsCommand(argv=words, folder=folder, external=external),) if words else ()


def _split(value: ShellWord | None) -> Argv:
    if value is None or not value.static or not _PLAIN_SPLIT.fullmatch(value.text):
        refuse("env -S is given more than plain words", "run the program without env -S")
    return tuple(ShellWord(text=text, static=True, written=text) for text in value.text.split(" ") if text)


def _check_operands(program: ShellWord, words: Argv) -> None:
    for word in words:
        if word.several:
            refuse(
                f"{program.shown} is given {word.shown!r}, which may be several words", "write it out, or into quotes"
            )


def _unwrap_priority(argv: Argv) -> tuple[Effect, ...]:
    _, rest = split_options(argv, _SCHEDULED)
    if rest and not (rest[0].static and rest[0].text.isdecimal()):
        refuse(f"the priority {rest[0].shown!r} of chrt is no number", "run the command without chrt")
    return _runs(rest[1:])


def _unwrap_applet(argv: Argv) -> tuple[Effect, ...]:
    """`busybox sh -c ...`."""
    if len(argv) > 1 and (not argv[1].static or argv[1].text.startswith("-")):
        return ()
    return _runs(argv[1:])


WRAPPERS: Mapping[str, Unwrap] = {
    "builtin": unwrap_builtin,
    "busybox": _unwrap_applet,
    "chrt": _unwrap_priority,
    "command": unwrap_command,
    "doas": unwrap_plain(options("n", "uC")),
    "env": unwrap_env,
    "exec": unwrap_plain(options("cl")),
    "find": unwrap_find,
    "ionice": unwrap_plain(options("t", "cn", long="ignore", long_valued="class classdata")),
    "nice": unwrap_nice,
    "nohup": unwrap_plain(options()),
    "setsid": unwrap_plain(options("cfw", long="ctty fork wait")),
    "stdbuf": unwrap_plain(options("", "ioe", long_valued="input output error")),
    "sudo": unwrap_sudo,
    "time": unwrap_plain(options("apqvV", "fo", long="append portability quiet verbose", long_valued="format output")),
    "timeout": unwrap_plain(
        options("v", "ks", long="foreground preserve-status verbose", long_valued="kill-after signal"), operands=1
    ),
    "toybox": _unwrap_applet,
    "xargs": unwrap_xargs,
}


OWN_OPERANDS: Mapping[str, int] = {
    "catchsegv": 0, "chroot": 1, "dbus-run-session": 0, "eatmydata": 0, "fakeroot": 0, "faketime": 1, "flock": 1,
    "gdb": 0, "linux32": 0, "linux64": 0, "ltrace": 0, "npx": 0, "nsenter": 0, "numactl": 0, "perf": 1, "pkexec": 0,
    "prlimit": 0, "rlwrap": 0, "setarch": 1, "setpriv": 0, "strace": 0, "systemd-run": 0, "taskset": 1, "tini": 0,
    "bear": 0, "caffeinate": 0, "ccache": 0, "chronic": 0, "cpulimit": 0, "i386": 0, "i486": 0, "i586": 0, "i686": 0,
    "proxychains4": 0, "sccache": 0, "ssh-agent": 0, "torsocks": 0, "uname26": 0, "x86_64": 0,
    "unbuffer": 0, "unshare": 0, "uvx": 0, "valgrind": 0, "bunx": 0, "xvfb-run": 0, "dumb-init": 0, "choom": 0,
}  # fmt: skip
"""How many words of its own stand before the command."""

BY_SUBCOMMAND: Mapping[str, tuple[str, ...]] = {
    "bundle": ("exec",), "hatch": ("run",), "npm": ("exec", "x"), "pdm": ("run",), "pipenv": ("run",),
    "pnpm": ("exec", "dlx"), "poetry": ("run",), "rye": ("run",), "uv": ("run",), "yarn": ("exec", "dlx"),
    "conda": ("run",), "mamba": ("run",), "direnv": ("exec",), "mise": ("exec", "x"), "asdf": ("exec",),
}  # fmt: skip

_OF_NODE = frozenset(["npx", "npm", "pnpm", "yarn", "bunx"])
_ALONE = frozenset(["--", "-y", "--yes", "--no-install"])
"""Options that take no value, so that the program follows."""
_MOST_READINGS = 10
_UNSEEN = """
    at batch bwrap capsh concurrently daemonize entr expect firejail gosu hyperfine machinectl newgrp nodemon parallel
    pkexec proot rbash rsh run-parts run0 runuser screen script setuidgid sg start-stop-daemon su su-exec tclsh tmux
    watch watchexec
"""
UNSEEN = frozenset(_UNSEEN.split())
"""They run a text, or what they run depends on too much else."""


def unwrap_runner(argv: tuple[ShellWord, ...]) -> tuple[Effect, ...]:
    """What `argv` may run, where argv[0] is one of those above; nothing for any other program."""
    program = argv[0].text.rpartition("/")[2]
    if program in UNSEEN:
        refuse(
            f"{program} runs a command that cannot be found in its words for sure",
            f"run that command without {program}",
        )
    flags = _ALONE if program in _OF_NODE else frozenset(["--"])
    if program in OWN_OPERANDS:
        return _suffixes(argv[1:], OWN_OPERANDS[program], flags)
    for index, word in enumerate(argv[1:], start=1):
        if word.static and word.text in BY_SUBCOMMAND.get(program, ()):
            return _suffixes(argv[index + 1 :], 0, flags)
    return ()


def _suffixes(words: tuple[ShellWord, ...], operands: int, flags: frozenset[str]) -> tuple[Effect, ...]:
    """From each word that may be the program: the first one that is no option, or behind one that may be a value."""
    found: list[Effect] = []
    for index, word in enumerate(words):
        if not word.static:
            refuse(f"{word.shown!r} may be the program that is run", "write the program out")
        if word.text in ("-c", "--command", "--call"):
            refuse("a text is given to be run by another program", "run the command itself")
        if word.text.startswith("-"):
            continue
        before = words[index - 1].text if index else ""
        certain = not before.startswith("-") or "=" in before or before in flags
        if certain and operands:
            operands -= 1
            continue
        if len(found) >= _MOST_READINGS:
            refuse("which of many words is the program that is run is not known", "run the program itself")
        found.append(RunsCommand(argv=words[index:]))
        if certain:
            break
    return tuple(found)
