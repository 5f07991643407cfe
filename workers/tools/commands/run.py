"""
`bash`: a shell command in the worktree, with a time limit; the beginning and the end of what it printed.
"""

import os
import shutil
import time
from pathlib import Path

from pydantic import Field

from forgepool.workers.sandbox.run.background import Background, BackgroundCommand
from forgepool.workers.sandbox.run.output import EXCERPT_BYTES, live_bytes, nameless_log, read_log
from forgepool.workers.sandbox.run.process import Command, Ended, run, shell
from forgepool.workers.tools.tool import Arguments, Tool, ToolAnswer, make_typed_tool
from forgepool.workers.tools.workplace import ToolRefused, Workplace

KEEP_BYTES = 8 * 1024 * 1024
"""Of a log: as much as `read_file` can read."""
SHOWN_CHARACTERS = 12_000


class Bash(Arguments):
    command: str = Field(min_length=1, description="a script for bash")
    timeout_s: float = Field(default=120.0, gt=0, le=1800, description="seconds after which it is killed")


def bash(arguments: Bash, workplace: Workplace) -> ToolAnswer:
    with nameless_log() as log:
        ended = run(
            script_command(arguments.command, workplace, log, timeout_s=arguments.timeout_s), stop=workplace.stop
        )
        printed = _printed(ended, log, workplace)
    return ToolAnswer(text=f"{how_it_ended(ended)}\n{printed}".rstrip(), is_error=not ended.succeeded)


def script_command(script: str, workplace: Workplace, log: int, *options: str, timeout_s: float) -> Command:
    """
    A script in the worktree, printing into a log without a name.

    Raises:
        Refused: it holds what no command line can.
    """
    require_plain(script)
    return Command(
        argv=interpreter(script, workplace.env.get("PATH"), *options),
        cwd=workplace.root,
        env=workplace.env,
        log=Path(os.devnull),
        log_file=log,
        timeout_s=max(0.1, min(timeout_s, workplace.left_s())),
        keep_bytes=KEEP_BYTES,
        confined=workplace.confined,
    )


def require_plain(script: str) -> None:
    if "\0" in script:
        raise ToolRefused(
            "the command holds a NUL character, which no command line can; write it as \\0 where it is meant"
        )


def interpreter(script: str, path: str | None, *options: str) -> tuple[str, ...]:
    """Bash where there is one, with these options: that is what models write. Else the host's `sh`."""
    found = shutil.which("bash", path=path)
    return (found, *options, "-c", script) if found else shell(script)


def how_it_ended(ended: Ended) -> str:
    match ended.how:
        case "exit":
            return f"[{_status(ended.status)}, {ended.seconds:.1f} s]"
        case "timeout" | "idle":
            return f"[killed after {ended.seconds:.0f} s, its time was up; give a larger timeout_s or do less]"
        case "stopped":
            return "[killed: the attempt is being stopped]"
        case "not_started":
            return "[not started]"


def _status(status: int | None) -> str:
    if status is None:
        return "exit status unknown"
    return f"exit status {status}" if status >= 0 else f"ended by signal {-status}"


def _fits(ended: Ended) -> bool:
    return ended.output_bytes <= 2 * EXCERPT_BYTES and len(ended.head + ended.tail) <= SHOWN_CHARACTERS


def _printed(ended: Ended, log: int, workplace: Workplace) -> str:
    """Both ends of the output; the end counts for more, since that is where programs say what failed."""
    if not ended.tail:
        return "[no output]"
    text = ended.head + ended.tail
    if _fits(ended):
        return text
    head, tail = (ended.head or text)[: SHOWN_CHARACTERS // 3], text[-SHOWN_CHARACTERS * 2 // 3 :]
    note = f"[{ended.output_bytes:,} bytes in all; the middle is left out. {_kept(log, workplace)}]"
    return f"{head}\n{note}\n{tail}"


def _kept(log: int, workplace: Workplace) -> str:
    """Where all of the output is: what was read from the log itself, where `read_file` and `grep` find it."""
    try:
        whole, file = workplace.new_output("bash")
        with file:
            file.write(read_log(log, KEEP_BYTES))
    except (OSError, ToolRefused) as trouble:
        return f"It could not be kept: {trouble}"
    return f"All of it: read_file or grep {whole}"


BASH = make_typed_tool(
    "bash",
    "Runs a shell command in the worktree, without input. Nothing it starts outlives it; for what is to run longer "
    "there is bash_background.",
    Bash,
    bash,
    kind="run",
)


_LOOK_S = 0.1


class BashBackground(Arguments):
    command: str = Field(min_length=1, description="a script for bash")


class CheckBackground(Arguments):
    id: int = Field(description="the command's number, as bash_background told it")
    wait_s: float = Field(default=0.0, ge=0, le=600, description="seconds to wait, at most, for its end or for `until`")
    until: str | None = Field(default=None, min_length=1, description="a text; waiting ends when it is printed")


class StopBackground(Arguments):
    id: int = Field(description="the command's number, as bash_background told it")


def background_tools(background: Background) -> tuple[Tool, Tool, Tool]:
    """The tools over one order's background commands."""

    def begin(arguments: BashBackground, workplace: Workplace) -> ToolAnswer:
        running = background.running()
        if len(running) >= background.most:
            numbers = ", ".join(map(str, running))
            raise ToolRefused(
                f"{len(running)} commands run already ({numbers}), which is the most; stop one of them first"
            )
        require_plain(arguments.command)
        log, file = workplace.new_output(f"background-{len(background.commands) + 1}")
        with file:
            number = background.start(_command(arguments.command, log, file.fileno(), workplace))
        return ToolAnswer(text=f"OK: command {number} runs in the background; its output goes to {log}")

    def check(arguments: CheckBackground, workplace: Workplace) -> ToolAnswer:
        guarded = _found(background, arguments.id)
        new = _awaited(guarded, arguments, workplace)
        ended = guarded.find_end()
        if ended is None:
            return ToolAnswer(text=f"[running, {guarded.seconds:.1f} s]\n{_new_output_text(new, guarded)}")
        return ToolAnswer(text=f"{how_it_ended(ended)}\n{_new_output_text(new, guarded)}", is_error=not ended.succeeded)

    def stop(arguments: StopBackground, workplace: Workplace) -> ToolAnswer:
        guarded = _found(background, arguments.id)
        if (ended := guarded.find_end()) is not None:
            return ToolAnswer(text=f"command {arguments.id} had ended by itself: {how_it_ended(ended)}")
        ended = guarded.stop()
        return ToolAnswer(
            text=f"[stopped after {ended.seconds:.1f} s]\n{_new_output_text(_text(guarded.new_output()), guarded)}"
        )

    return (
        make_typed_tool("bash_background", _BEGINS, BashBackground, begin, kind="run"),
        make_typed_tool("check_background", _CHECKS, CheckBackground, check, kind="run"),
        make_typed_tool("stop_background", _STOPS, StopBackground, stop, kind="run"),
    )


_BEGINS = (
    "Starts a shell command in the worktree that runs beside your further work: a server, a long build. "
    "It is killed when the work ends, if not before."
)
_CHECKS = "Tells whether a background command still runs, how it ended, and what it has printed since the last check."
_STOPS = "Ends a background command and everything it started."


def _command(script: str, log: Path, log_file: int, workplace: Workplace) -> Command:
    return Command(
        argv=interpreter(script, workplace.env.get("PATH")),
        cwd=workplace.root,
        env=workplace.env,
        log=log,
        log_file=log_file,
        timeout_s=max(0.1, workplace.left_s()),
        keep_bytes=KEEP_BYTES,
        confined=workplace.confined,
    )


def _found(background: Background, number: int) -> BackgroundCommand:
    if number not in background.commands:
        known = ", ".join(map(str, background.commands)) or "none was started"
        raise ToolRefused(f"no background command has the number {number}; there are: {known}")
    return background.commands[number]


def _awaited(guarded: BackgroundCommand, arguments: CheckBackground, workplace: Workplace) -> str:
    """What it printed since the last check, once it has ended, the text has come, or there is no time left."""
    ends_at = time.monotonic() + min(arguments.wait_s, workplace.left_s())
    printed = b""
    while True:
        over = guarded.find_end() is not None or workplace.stop()
        printed += guarded.new_output()
        text = _text(printed)
        here = arguments.until is not None and arguments.until in text
        if over or here or time.monotonic() >= ends_at:
            return text
        guarded.wait(max(0.0, min(_LOOK_S, ends_at - time.monotonic())))


def _text(printed: bytes) -> str:
    return printed.decode(errors="replace")


def _new_output_text(text: str, guarded: BackgroundCommand) -> str:
    log = guarded.command.log
    full = guarded.find_end() is None and guarded.told_bytes >= live_bytes(guarded.command.keep_bytes)
    note = [f"[{log} is full; what is printed from now on shows when the command has ended]"] if full else []
    if len(text) > SHOWN_CHARACTERS:
        left_out = len(text) - SHOWN_CHARACTERS
        text = f"[{left_out:,} characters are left out here; they are in {log}]\n{text[-SHOWN_CHARACTERS:]}"
    return "\n".join([text.rstrip("\n") or "[no new output]", *note])
