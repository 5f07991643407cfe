"""
Prints the harness's share of an agent's time (milliseconds per turn, without the model's time and the tools' own), and
the pushes to the hub per turn.

    python benchmarks/agent_overhead.py [--turns 200] [--pause 0.1]

One scripted conversation (reads, edits, searches and commands in turn, on a small repository) is led two ways in one
run. A bare loop asks, carries out and keeps nothing. A whole order has the built-in agent's transcript, limits and loop
detection, snapshots the files after each turn, and keeps the work under way in a hub. Its pushes are counted in the
hub's reflogs, the candidate's included.

The model first answers at once, and in a second half after a pause, shorter than any real model's. While it thinks, the
keeping goes on in the background. The last line gives the seconds until a worker process has imported all that an order
needs.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from forgepool.workers.context.transcript.entries import (
    Answered,
    ConversationStarted,
    Entry,
    Finished,
    read_transcript,
)
from forgepool.workers.llm.messages import Text, ToolResult, Turn, user
from forgepool.workers.llm.provider import ModelRequest
from forgepool.workers.llm.scripted import ScriptedModel
from forgepool.workers.order.run_order import carry_out
from forgepool.workers.sandbox.run.background import Background
from forgepool.workers.schema.confinement import OPEN
from forgepool.workers.schema.orders import ScriptedAgent, WorkOrder
from forgepool.workers.schema.settings import Settings
from forgepool.workers.tools.endings import finish_tool
from forgepool.workers.tools.tool import Tool
from forgepool.workers.tools.tool import carry_out as carry_out_call
from forgepool.workers.tools.toolset import working
from forgepool.workers.tools.workplace import Workplace

FILES = 40


def script(turns: int, pause_s: float) -> str:
    """Return a script in which no two calls are alike, so that loop detection does not stop it."""
    lines = ["turns:"]
    for number in range(turns - 1):
        name = f"src/f{number % FILES}.py"
        call = [
            f"{{tool: read_file, path: {name}, lines: {number + 1}}}",
            f'{{tool: edit_file, path: {name}, old: "x = ", new: "x = 1 +  "}}',
            f"{{tool: grep, pattern: value_{number}}}",
            f"{{tool: bash, command: 'echo {number} >> notes.txt'}}",
        ][number % 4]
        lines += [f"  - pause_s: {pause_s}", f"    calls: [{call}]"]
    lines += [f"  - pause_s: {pause_s}", "    calls: [{tool: finish, summary: done}]"]
    return "\n".join(lines)


def hub_in(folder: Path) -> tuple[Path, str]:
    work, hub = folder / "work", folder / "hub.git"
    git = {"check": True, "env": os.environ | {"GIT_CONFIG_GLOBAL": os.devnull}, "capture_output": True, "text": True}
    (work / "src").mkdir(parents=True)
    for number in range(FILES):
        (work / "src" / f"f{number}.py").write_text("x = 0\n" + f"value_{number} = {number}\n" * 20)
    subprocess.run(["git", "init", "-q", "-b", "main", str(work)], **git)
    subprocess.run(["git", "-C", str(work), "add", "-A"], **git)
    name = ("-c", "user.name=b", "-c", "user.email=b@forgepool.invalid")
    subprocess.run(["git", "-C", str(work), *name, "commit", "-q", "-m", "first"], **git)
    subprocess.run(["git", "clone", "-q", "--bare", str(work), str(hub)], **git)
    subprocess.run(["git", "-C", str(hub), "config", "core.logAllRefUpdates", "always"], **git)
    return hub, subprocess.run(["git", "-C", str(hub), "rev-parse", "main"], **git).stdout.strip()


def place_in(folder: Path, hub: Path) -> Workplace:
    root, tmp = folder / "root", folder / "tmp"
    tmp.mkdir(parents=True)
    subprocess.run(["git", "clone", "-q", str(hub), str(root)], check=True, capture_output=True)
    return Workplace(
        root=root, tmp=tmp, env={"PATH": os.environ["PATH"]}, confined=OPEN, stop=lambda: False, left_s=lambda: 3600.0
    )


def bare(folder: Path, hub: Path, text: str) -> tuple[float, float]:
    """Return the seconds in all, and those of the tools."""
    model, place = ScriptedModel(text, attempt=1), place_in(folder, hub)
    with Background() as background:
        tools = working("scripted", background, ending=(finish_tool(lambda: None),))
        turns, tools_s, began = [user(Text(text="go"))], 0.0, time.monotonic()
        finished = False
        while not finished:
            offers = tuple(tool.offer for tool in tools)
            turn = model.ask(ModelRequest(system=(), tools=offers, turns=tuple(turns)), stop=lambda: False)
            turns.append(turn)
            results, spent_s, finished = carried_out(turn, tools, place)
            tools_s += spent_s
            turns.append(user(*results))
    return time.monotonic() - began, tools_s


def carried_out(turn: Turn, tools: tuple[Tool, ...], place: Workplace) -> tuple[list[ToolResult], float, bool]:
    began, results, finished = time.monotonic(), [], False
    for call in turn.calls:
        answer = carry_out_call(call, tools, place)
        finished = finished or answer.ends is not None
        results.append(ToolResult(call_id=call.id, text=answer.text, is_error=answer.is_error))
    return results, time.monotonic() - began, finished


def ordered(folder: Path, hub: Path, base: str, text: str) -> tuple[float, float, int]:
    """Return the seconds in all, those of the tools, and the pushes."""
    run = folder.name.replace(".", "-")
    settings = Settings(home=folder / "home", cache=folder / "cache", host="bench")
    order = WorkOrder(
        order_id=f"{run}.b.1",
        token="b",
        run=run,
        task="b",
        attempt=1,
        hub=str(hub),
        target="main",
        base=base,
        title="b",
        agent=ScriptedAgent(script=text),
        issued_at=0.0,
        start_by=0.0,
    )
    result = carry_out(order, settings, stop=lambda: False)
    if result.outcome != "candidate":
        sys.exit(f"the order ended otherwise: {result.outcome}: {result.detail}")
    entries = read_transcript(settings.home / "runs" / run / "logs/orders/b/1/transcript.jsonl")
    started = next(entry.at for entry in entries if isinstance(entry, ConversationStarted))
    finished = next(entry.at for entry in entries if isinstance(entry, Finished))
    pushes = sum(len(log.read_text().splitlines()) for log in hub.glob(f"logs/refs/forgepool/{run}/*/b/1"))
    return finished - started, tools_of(entries), pushes


def tools_of(entries: list[Entry]) -> float:
    return sum(entry.seconds for entry in entries if isinstance(entry, Answered))


def import_s() -> float:
    names = ", ".join(
        f"forgepool.{name}"
        for name in ("workers.order.run_order", "workers.agents.builtin.agent", "supervisor.gate.land")
    )
    took = []
    for _ in range(3):
        began = time.monotonic()
        subprocess.run([sys.executable, "-c", f"import forgepool.workers.queue.host, {names}"], check=True)
        took.append(time.monotonic() - began)
    return min(took)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--turns", type=int, default=200)
    asked.add_argument("--pause", type=float, default=0.1, help="seconds the model takes, in the second half")
    given = asked.parse_args()
    print(f"{'':34} {'pause s':>8} {'whole s':>8} {'tools s':>8} {'ms/turn':>8} {'pushes/turn':>12}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        hub, base = hub_in(folder)
        for pause_s in (0.0, given.pause):
            text = script(given.turns, pause_s)
            row("bare loop", pause_s, given.turns, *bare(folder / f"bare{pause_s}", hub, text))
            whole = ordered(folder / f"order{pause_s}", hub, base, text)
            row("whole order, kept in the hub", pause_s, given.turns, *whole)
    print(f"\nimport of a worker: {import_s():.2f} s (best of 3, Python's own start included)")


def row(name: str, pause_s: float, turns: int, whole_s: float, tools_s: float, pushes: int = 0) -> None:
    own_ms = (whole_s - tools_s - pause_s * turns) / turns * 1000
    print(f"{name:34} {pause_s:8.2f} {whole_s:8.2f} {tools_s:8.2f} {own_ms:8.2f} {pushes / turns:12.3f}", flush=True)


if __name__ == "__main__":
    main()
