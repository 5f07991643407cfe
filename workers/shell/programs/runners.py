"""
Programs that run what follows among their words, and whose options are not known here: every command it could be.

Too many rather than too few: where it is not clear whether a word is an option's value or the program, both readings
are given.
"""

from collections.abc import Mapping

from forgepool.workers.shell.parse.script import ShellWord
from forgepool.workers.shell.programs.effects import Effect, RunsCommand
from forgepool.workers.shell.scan.refusal import refuse

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
