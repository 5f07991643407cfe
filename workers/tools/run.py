"""
`bash`: a shell command in the worktree, with a time limit; the beginning and the end of what it printed.
"""

import secrets
import shutil
from pathlib import Path

from pydantic import Field

from workers.sandbox.output import EXCERPT_BYTES
from workers.sandbox.process import Command, Ended, run, shell
from workers.tools.tool import Answer, Arguments, typed
from workers.tools.workplace import Workplace

KEEP_BYTES = 8 * 1024 * 1024
"""Of a log: as much as `read_file` can read."""
SHOWN_CHARACTERS = 12_000


class Bash(Arguments):
    command: str = Field(min_length=1, description="a script for bash")
    timeout_s: float = Field(default=120.0, gt=0, le=1800, description="seconds after which it is killed")


def bash(arguments: Bash, workplace: Workplace) -> Answer:
    log = workplace.tmp / f"bash-{secrets.token_hex(4)}.log"
    ended = run(
        Command(
            argv=interpreter(arguments.command, workplace.env.get("PATH")),
            cwd=workplace.root,
            env=workplace.env,
            log=log,
            timeout_s=max(0.1, min(arguments.timeout_s, workplace.left_s())),
            keep_bytes=KEEP_BYTES,
            pass_fds=workplace.pass_fds,
        ),
        stop=workplace.stop,
    )
    # Where `read_file` and `grep` find it.
    whole = None if _fits(ended) else log.rename(workplace.new_output("bash"))
    log.unlink(missing_ok=True)
    return Answer(text=f"{how_it_ended(ended)}\n{_printed(ended, whole)}".rstrip(), is_error=not ended.succeeded)


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


def _printed(ended: Ended, whole: Path | None) -> str:
    """Both ends of the output; the end counts for more, since that is where programs say what failed."""
    if not ended.tail:
        return "[no output]"
    text = ended.head + ended.tail
    if whole is None:
        return text
    head, tail = (ended.head or text)[: SHOWN_CHARACTERS // 3], text[-SHOWN_CHARACTERS * 2 // 3 :]
    note = f"[{ended.output_bytes:,} bytes in all; the middle is left out. All of it: read_file or grep {whole}]"
    return f"{head}\n{note}\n{tail}"


BASH = typed(
    "bash",
    "Runs a shell command in the worktree, without input. Nothing it starts outlives it; for what is to run longer "
    "there is bash_background.",
    Bash,
    bash,
    kind="run",
)
