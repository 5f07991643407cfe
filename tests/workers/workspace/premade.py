"""A repository made in one step, orders, and transcripts as short tables, for tests of what is derived from them."""

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import JsonValue

from forgepool.workers.context.transcript.entries import Answered, ConversationStarted, Entry, TurnSaid
from forgepool.workers.llm.messages import Text, ToolCall, ToolResult, Turn, user
from forgepool.workers.schema.orders import BuiltinAgent, WorkOrder
from forgepool.worktrees.git.git import CommitId, Git

Files = Mapping[str, str | bytes | None]
"""Path to content. None removes the file, and a content that begins with `-> ` is a link."""
Call = tuple[str, dict[str, JsonValue], str]
"""Tool, arguments and answer. An answer that begins with `!` is an error."""


def repository(folder: Path, *commits: Files) -> tuple[Git, CommitId]:
    """Make a bare repository with these commits one after the other, and return the last."""
    return told_repository(folder, *(("x", files) for files in commits))


def told_repository(folder: Path, *commits: tuple[str, Files]) -> tuple[Git, CommitId]:
    """Make a bare repository of commits with these messages."""
    subprocess.run(["git", "init", "-q", "--bare", str(folder)], check=True)
    git = Git(git_dir=folder)
    stream = b"".join(_commit(number, message, files) for number, (message, files) in enumerate(commits))
    git.run("fast-import", "--quiet", stdin=stream)
    return git, CommitId(git.text("rev-parse", "refs/heads/main"))


def _commit(number: int, message: str, files: Files) -> bytes:
    said = message.encode()
    head = f"commit refs/heads/main\ncommitter a <a@example.org> {1_700_000_000 + number} +0000\ndata {len(said)}\n"
    lines = [head.encode() + said + b"\n"]
    for path, content in files.items():
        if content is None:
            lines.append(f"D {path}\n".encode())
            continue
        data = content.encode() if isinstance(content, str) else content
        mode = "120000" if data.startswith(b"-> ") else "100644"
        data = data.removeprefix(b"-> ")
        lines.append(f"M {mode} inline {path}\ndata {len(data)}\n".encode() + data + b"\n")
    return b"".join(lines)


def order(**changes: object) -> WorkOrder:
    plain: dict[str, object] = {
        "order_id": "night.rename.1",
        "token": "token",
        "run": "night",
        "task": "rename",
        "attempt": 1,
        "hub": "hub",
        "target": "main",
        "base": "0123",
        "title": "Call it new",
        "agent": BuiltinAgent(),
        "issued_at": 1.0,
        "start_by": 2.0,
    }
    return WorkOrder.model_validate(plain | changes)


def conversation(*turns: Iterable[Call] | str) -> list[Entry]:
    """Return a conversation. A turn of the model is its calls or its text; `> ` begins what the harness says."""
    entries: list[Entry] = [ConversationStarted(at=0, order_id="o", model="m", system=(), tools=())]
    for iteration, turn in enumerate(turns, start=1):
        if isinstance(turn, str):
            plain = Text(text=turn.removeprefix("> "))
            one = user(plain) if turn.startswith("> ") else Turn(role="assistant", parts=(plain,))
            entries.append(TurnSaid(at=0, turn=one))
            continue
        calls = [(f"{iteration}-{place}", call) for place, call in enumerate(turn)]
        parts = tuple(ToolCall(id=name, name=tool, arguments=arguments) for name, (tool, arguments, _) in calls)
        entries.append(TurnSaid(at=0, turn=Turn(role="assistant", parts=parts)))
        entries += [_answered(iteration, name, answer) for name, (_, _, answer) in calls]
    return entries


def _answered(iteration: int, name: str, answer: str) -> Answered:
    result = ToolResult(call_id=name, text=answer.removeprefix("!"), is_error=answer.startswith("!"))
    return Answered(at=0, iteration=iteration, seconds=0, result=result)


def read(path: str, first: int = 1, last: int = 3, text: str = "x") -> Call:
    lines = [f"{number:6}\t{text}{number}" for number in range(first, last + 1)]
    return "read_file", {"path": path, "start": first}, "\n".join([*lines, f"[{path}: lines {first}-{last} of 99]"])
