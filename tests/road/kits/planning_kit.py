"""Models that plan, criticise and work, by a local server that speaks the vendors' wires."""

import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kit import Machine
from lead_kit import BRIEF, FRAME
from models_kit import KEY, PRICE
from vendors.answers import Answer, Call, Fault, Say, Seen
from vendors.server import VendorServer

CRITIC_KEY = "ROAD_CRITIC_KEY"

PLAN = """\
version: 1
name: two-files
checks:
  there: ls README.md
defaults:
  agent: {builtin: {}}
tasks:
  - id: first
    title: Write first.txt
    description: Create first.txt with the words "by first" in it.
    files: [first.txt]
    acceptance: ["grep -q 'by first' first.txt"]
  - id: second
    title: Write second.txt
    description: Create second.txt with the words "by second" in it, after `first`.
    needs: [first]
    files: [second.txt]
    acceptance: ["grep -q 'by second' second.txt"]
"""
COVERS = {"R1": ["first", "second"]}


def written(plan: str = PLAN, covers: dict[str, list[str]] | None = None, why: str = "one file each") -> Say:
    filled = {"plan": plan, "covers": COVERS if covers is None else covers, "why": why}
    return Say(calls=[("write_plan", filled)])


def objection(*said: str) -> Say:
    return Say(calls=[("object", {"objections": list(said)})])


def read(path: str) -> Say:
    return Say(calls=[("read_file", {"path": path})])


@dataclass
class Models:
    """The answers of the planner and of the critic, in turn; workers write the file that their task names."""

    planner: Sequence[Answer | Callable[[Seen], Answer]]
    critic: Sequence[Answer] = ()
    work: Callable[[Seen], Answer] | None = None
    planned: list[Seen] = field(default_factory=list)
    criticised: list[Seen] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, seen: Seen) -> Answer:
        if "write_plan" in seen.tools:
            return self._next(seen, self.planned, self.planner)
        if "object" in seen.tools:
            return self._next(seen, self.criticised, self.critic)
        return (self.work or works)(seen)

    def _next(self, seen: Seen, asked: list[Seen], answers: Sequence[Any]) -> Answer:
        with self._lock:
            asked.append(seen)
            number = len(asked)
        if number > len(answers):
            return Fault(kind="bad_request", message=f"asked {number} times")
        answer = answers[number - 1]
        found: Answer = answer(seen) if callable(answer) else answer
        return found


LEAD: Sequence[Call] = (
    ("frame", {key: value for key, value in FRAME.items() if key != "tool"}),
    ("collect", {"what": "all"}),
    ("checkpoint", {"changed": ["both files are there"], "in_tension": [], "open": []}),
    ("brief", {key: value for key, value in BRIEF.items() if key != "tool"}),
)
"""The calls of a lead whose tasks the plan has, until it synthesizes."""
SYNTHESIS = ("synthesize", {"text": "- `first` landed: first.txt is there.\n- `second` landed: second.txt is there."})


def works(seen: Seen) -> Answer:
    """Answer a built-in agent so that it writes its task's file; a reviewer passes it."""
    if "frame" in seen.tools:
        return Say(calls=[(*LEAD, SYNTHESIS)[seen.answered]])
    if "# Review of a synthesis" in "".join(seen.texts):
        return Say(calls=[("verdict", {"objections": []})])
    task = re.search(r"# (?:Task|Review of task) ([a-z-]+)", "".join(seen.texts))
    name = f"{task[1] if task else 'unknown'}.txt"
    if "verdict" in seen.tools:
        if not seen.results:
            return read(name)
        verdict = {"verdict": "pass", "findings": [], "confidence": 0.9, "summary": "read it"}
        return Say(calls=[("verdict", verdict)])
    if "commit_plan" in seen.tools:
        return Say(calls=[("commit_plan", {"plan": f"write {name}", "files_to_modify": [name]})])
    if seen.results:
        return Say(calls=[("finish", {"summary": f"wrote {name}"})])
    return Say(calls=[("write_file", {"path": name, "content": f"by {name.removesuffix('.txt')}\n"})])


def know(machine: Machine, server: VendorServer, *, critic: bool = True, price: str = PRICE) -> None:
    """Write the machine's model table: a planner on one wire, and a critic of another family on another."""
    lines = [
        "accounts:",
        f"  one: {{wire: anthropic, key: {KEY}, base_url: '{server.url}'}}",
        f"  two: {{wire: openai-responses, key: {CRITIC_KEY}, base_url: '{server.url}/v1'}}",
        "models:",
        f"  planner-1: {{account: one, family: first, window_tokens: 100000, max_output_tokens: 4000, price: {price}}}",
        f"  critic-1: {{account: two, family: second, window_tokens: 100000, max_output_tokens: 4000, price: {price}}}",
        "routes:",
    ]
    for kind, model in (("code", "planner-1"), ("plan", "planner-1"), ("review", "critic-1")):
        lines.append(f"  {kind}: {{primary: {model}, reason: a test, source: here, date: '2026-11-01'}}")
    table = machine.folder / "models.yaml"
    table.write_text("\n".join([*lines, "budget: planner-1", ""]))
    machine.variables |= {"FORGEPOOL_MODELS": str(table), KEY: "road-key"}
    if critic:
        machine.variables[CRITIC_KEY] = "critic-key"


def typed(machine: Machine, argv: list[str], text: str, *, interrupt_at: str = "") -> tuple[int, str]:
    """Run a command on a terminal, on which a person has typed, or presses Ctrl-C once it shows a text."""
    machine.tmp.mkdir(parents=True, exist_ok=True)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "forgepool.orchestrator.cli", *argv]
    env = machine._environment() | {"COLUMNS": "200"}
    child = subprocess.Popen(command, cwd=machine.folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, text.encode())
    seen = bytearray()
    while True:
        try:
            seen += os.read(ours, 65536)
        except OSError:  # EIO: the command has closed the terminal
            break
        if interrupt_at and interrupt_at.encode() in seen:
            child.send_signal(signal.SIGINT)
            interrupt_at = ""
    os.close(ours)
    return child.wait(), seen.decode()
