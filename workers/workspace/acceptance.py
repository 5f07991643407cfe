"""
VERIFY: what the harness finds when it looks at work that is said to be done. Nobody's word counts here.

The paths the agent changed, and the task's own acceptance commands run on what it left. The gate's checks, which come
from the target, are run later on the composed commit; here an agent gets to know early what they may find.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from forgepool.workers.context.transcript.entries import Verified, now
from forgepool.workers.sandbox.run.process import Command, Ended, run, shell
from forgepool.workers.sandbox.sandbox_profile import Private
from forgepool.workers.schema.orders import WorkOrder
from forgepool.workers.tools.commands.run import interpreter

_OUTPUT_CHARACTERS = 8_000

_PASSING = (
    # What differs between two runs of one failure: addresses, durations, dates, temporary folders, numbers of lines.
    (re.compile(r"0x[0-9a-fA-F]+"), "0x"),
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "#"),
    (re.compile(r"(?<![\w.])/[^\s:'\"]+/"), "/"),
    (re.compile(r"\d+"), "0"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceFinding:
    """The first thing that is wrong with the work, if any."""

    verdict: Literal["green", "red", "out_of_scope", "infrastructure", "stopped"]
    detail: str
    output: str = ""
    log: str = ""
    paths: tuple[str, ...] = ()
    """Of `out_of_scope`."""

    @property
    def entry(self) -> Verified:
        ok = self.verdict == "green"
        print_ = "" if ok else fingerprint(self.detail, self.output)
        output = self.output[-_OUTPUT_CHARACTERS:]
        return Verified(at=now(), ok=ok, detail=self.detail, output=output, fingerprint=print_, outside=self.paths)


def accept(
    order: WorkOrder,
    folder: Path,
    own: Private,
    logs: Path,
    *,
    also: tuple[str, ...] = (),
    left_s: Callable[[], float] | None = None,
    stop: Callable[[], bool],
) -> AcceptanceFinding:
    """
    Runs the task's own acceptance commands on what the agent left, up to the first red one; then those of `also`, which
    a model wrote: a pipe in them does not hide the status of what stands before it. Each command may take the attempt's
    whole time, or all of them what is left of it.
    """
    theirs = [(command, interpreter(command, own.env.get("PATH"), "-o", "pipefail")) for command in also]
    commands = [*((command, shell(command)) for command in order.acceptance), *theirs]
    for number, (command, argv) in enumerate(commands, start=1):
        ended = run(
            Command(
                argv=argv,
                cwd=folder,
                env=own.env,
                confined=own.confined,
                log=logs / f"acceptance-{number}.log",
                timeout_s=order.limits.wall_s if left_s is None else max(0.1, left_s()),
                idle_s=order.limits.idle_s,
            ),
            stop=stop,
        )
        if not ended.succeeded:
            return _red(command, ended)
    return AcceptanceFinding(
        verdict="green", detail="the acceptance commands are green" if order.acceptance or also else ""
    )


def _red(command: str, ended: Ended) -> AcceptanceFinding:
    if ended.how == "not_started":
        detail = f"acceptance command '{command}' was not started: {ended.tail}"
        return AcceptanceFinding(verdict="infrastructure", detail=detail)
    detail = f"acceptance command '{command}' {describe_end(ended)}"
    verdict: Literal["red", "stopped"] = "stopped" if ended.how == "stopped" else "red"
    return AcceptanceFinding(verdict=verdict, detail=detail, output=ended.excerpt, log=str(ended.log))


def describe_end(ended: Ended) -> str:
    """How a command ended, as the end of a sentence."""
    match ended.how:
        case "exit":
            return f"exited with {ended.status}"
        case "timeout":
            return f"did not end within {ended.seconds:.0f} s"
        case "idle":
            return f"gave no sign of life and was ended after {ended.seconds:.0f} s"
        case "stopped":
            return "was stopped"
        case "not_started":
            return "could not be started"


def fingerprint(detail: str, output: str) -> str:
    """
    16 hexadecimal digits, the same for failures that differ only in what passes: line numbers, times, addresses.

    Source: the retry policies of published harnesses, which escalate when a failure comes back as it was.
    """
    lines = set()
    for line in (detail, *output.splitlines()):
        for pattern, instead in _PASSING:
            line = pattern.sub(instead, line)
        lines.add(line.strip())
    return hashlib.sha256("\n".join(sorted(lines)).encode(errors="replace")).hexdigest()[:16]
