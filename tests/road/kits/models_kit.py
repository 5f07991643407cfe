"""Machines whose models are a local server, and the answers of that server's model, for tests of whole runs."""

import re

from kit import Machine
from vendors.answers import Say, Seen
from vendors.server import VendorServer

KEY = "ROAD_TEST_KEY"
PRICE = "{input: 1, cached: 0.1, written: 1.25, output: 5}"


def know(machine: Machine, server: VendorServer) -> None:
    """Write the machine's model table: one model on each wire, all on the server."""
    wires = {"anthropic": server.url, "openai-responses": f"{server.url}/v1", "openai-chat": f"{server.url}/v1"}
    lines = ["accounts:"]
    lines += [f"  {wire}: {{wire: {wire}, key: {KEY}, base_url: '{url}'}}" for wire, url in wires.items()]
    lines += ["models:"]
    lines += [
        f"  model-{wire}: {{account: {wire}, family: {wire}, window_tokens: 100000, max_output_tokens: 4000, "
        f"price: {PRICE}}}"
        for wire in wires
    ]
    route = "{primary: model-anthropic, reason: a test, source: here, date: '2026-11-01'}"
    lines += ["routes:", f"  code: {route}", "budget: model-anthropic"]
    table = machine.folder / "models.yaml"
    table.write_text("\n".join(lines) + "\n")
    machine.variables |= {"FORGEPOOL_MODELS": str(table), KEY: "road-key"}


def planning(seen: Seen) -> bool:
    return "commit_plan" in seen.tools


def writes(seen: Seen) -> Say:
    """Answer any agent so that it writes its task's file, with the tools it offers."""
    match = re.search(r"# Task ([a-z-]+):", "".join(seen.texts))
    task = match[1] if match else "unknown"
    if planning(seen):
        return Say(calls=[("commit_plan", {"plan": f"write {task}.txt", "files_to_modify": [f"{task}.txt"]})])
    if seen.results:
        return Say(calls=[("finish", {"summary": f"wrote {task}.txt"})] if "finish" in seen.tools else [], text="Done.")
    line = f"by {task}"
    calls = {
        "write_file": {"path": f"{task}.txt", "content": f"{line}\n"},
        "Write": {"file_path": f"{_worktree(seen)}/{task}.txt", "content": f"{line}\n"},
        "write": {"filePath": f"{_worktree(seen)}/{task}.txt", "content": f"{line}\n"},
        "exec_command": {"cmd": f"echo '{line}' > {task}.txt"},
    }
    tool = next(name for name in calls if name in seen.tools)
    return Say(calls=[(tool, calls[tool])])


def _worktree(seen: Seen) -> str:
    """Return the worktree's path from the request, for programs that want absolute paths."""
    match = re.search(r"/[^\s'\"<>\\]*/checkouts/[^\s'\"<>\\/]+/slot-\d+", seen.raw.decode())
    return match[0] if match else ""
