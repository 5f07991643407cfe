"""
`bash`: a shell command in the worktree, with a time limit; the beginning and the end of what it printed.
"""

import secrets
import shutil

from pydantic import Field

from workers.sandbox.output import EXCERPT_BYTES
from workers.sandbox.process import Command, Ended, run, shell
from workers.tools.tool import Answer, Arguments, Tool
from workers.tools.workplace import Workplace

_KEEP_BYTES = 8 * 1024 * 1024
_SHOWN_CHARACTERS = 12_000


class Bash(Arguments):
    command: str = Field(min_length=1)
    timeout_s: float = Field(default=120.0, gt=0, le=1800)


def bash(arguments: Bash, workplace: Workplace) -> Answer:
    log = workplace.tmp / f"bash-{secrets.token_hex(4)}.log"
    ended = run(
        Command(
            argv=_interpreter(arguments.command, workplace.env.get("PATH")),
            cwd=workplace.root,
            env=workplace.env,
            log=log,
            timeout_s=max(0.1, min(arguments.timeout_s, workplace.left_s())),
            keep_bytes=_KEEP_BYTES,
            pass_fds=workplace.pass_fds,
        ),
        stop=workplace.stop,
    )
    log.unlink(missing_ok=True)
    return Answer(text=f"{_how(ended)}\n{_printed(ended)}".rstrip(), is_error=not ended.succeeded)


def _interpreter(script: str, path: str | None) -> tuple[str, ...]:
    """Bash where there is one: that is what models write. Else the host's `sh`."""
    found = shutil.which("bash", path=path)
    return (found, "-c", script) if found else shell(script)


def _how(ended: Ended) -> str:
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


def _printed(ended: Ended) -> str:
    """Both ends of the output; the end counts for more, since that is where programs say what failed."""
    if not ended.tail:
        return "[no output]"
    whole = ended.head + ended.tail
    missing = ended.output_bytes > 2 * EXCERPT_BYTES
    if not missing and len(whole) <= _SHOWN_CHARACTERS:
        return whole
    head, tail = (ended.head or whole)[: _SHOWN_CHARACTERS // 3], whole[-_SHOWN_CHARACTERS * 2 // 3 :]
    note = f"[{ended.output_bytes:,} bytes in all; the middle is left out: use grep, head, tail or sed -n]"
    return f"{head}\n{note}\n{tail}"


BASH = Tool(
    name="bash",
    description="Runs a shell command in the worktree, without input. Nothing it starts outlives it.",
    arguments=Bash,
    function=bash,
)
