"""
`bash`: a shell command in the worktree, with a time limit; the beginning and the end of what it printed.
"""

import os
import shutil
from pathlib import Path

from pydantic import Field

from forgepool.workers.sandbox.run.output import EXCERPT_BYTES, nameless_log, read_log
from forgepool.workers.sandbox.run.process import Command, Ended, run, shell
from forgepool.workers.tools.refusal import ToolRefused
from forgepool.workers.tools.tool import Arguments, ToolAnswer, make_typed_tool
from forgepool.workers.tools.workplace import Workplace

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
