"""
`bash_background`, `check_background`, `stop_background`: long builds and servers, beside which the work goes on.
"""

import time
from pathlib import Path

from pydantic import Field

from forgepool.workers.sandbox.run.background import Background, BackgroundCommand
from forgepool.workers.sandbox.run.output import live_bytes
from forgepool.workers.sandbox.run.process import Command
from forgepool.workers.tools.commands.run import KEEP_BYTES, SHOWN_CHARACTERS, how_it_ended, interpreter, require_plain
from forgepool.workers.tools.refusal import ToolRefused
from forgepool.workers.tools.tool import Arguments, Tool, ToolAnswer, make_typed_tool
from forgepool.workers.tools.workplace import Workplace

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
            return ToolAnswer(text=f"[running, {guarded.seconds:.1f} s]\n{_printed(new, guarded)}")
        return ToolAnswer(text=f"{how_it_ended(ended)}\n{_printed(new, guarded)}", is_error=not ended.succeeded)

    def stop(arguments: StopBackground, workplace: Workplace) -> ToolAnswer:
        guarded = _found(background, arguments.id)
        if (ended := guarded.find_end()) is not None:
            return ToolAnswer(text=f"command {arguments.id} had ended by itself: {how_it_ended(ended)}")
        ended = guarded.stop()
        return ToolAnswer(
            text=f"[stopped after {ended.seconds:.1f} s]\n{_printed(_text(guarded.new_output()), guarded)}"
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


def _printed(text: str, guarded: BackgroundCommand) -> str:
    log = guarded.command.log
    full = guarded.find_end() is None and guarded.told_bytes >= live_bytes(guarded.command.keep_bytes)
    note = [f"[{log} is full; what is printed from now on shows when the command has ended]"] if full else []
    if len(text) > SHOWN_CHARACTERS:
        left_out = len(text) - SHOWN_CHARACTERS
        text = f"[{left_out:,} characters are left out here; they are in {log}]\n{text[-SHOWN_CHARACTERS:]}"
    return "\n".join([text.rstrip("\n") or "[no new output]", *note])
