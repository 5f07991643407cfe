"""Shared by the tests of CLI agents: an assignment in a real git worktree, the real programs, and stand-ins."""

import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from vendors.server import Brain, Fault, Say, Seen

from forgepool.workers.agents.cli import perform_cli
from forgepool.workers.agents.cli.performing import PROGRAMS
from forgepool.workers.agents.cli.program import ProgramJob
from forgepool.workers.agents.contract import AgentAnswer, Assignment
from forgepool.workers.sandbox.sandbox_profile import command_environment
from forgepool.workers.schema.confinement import OPEN
from forgepool.workers.schema.orders import CliAgent, CliProgram, Limits, WorkOrder

RECORDINGS = Path(__file__).parent / "recordings"
KEY = "sk-local-000000"
KEYS = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}
MODELS: Mapping[CliProgram, str] = {
    "claude": "claude-opus-5-5",
    "codex": "model-1",
    "opencode": "anthropic/model-1",
    "aider": "openai/gpt-5.4",
}


class Place:
    """One attempt's folders; the worktree belongs to its own repository."""

    def __init__(self, folder: Path, program: CliProgram, *, limits: Limits | None = None) -> None:
        self.folder, self.program = folder, program
        self.limits = limits or Limits(wall_s=100, idle_s=60)
        for name in ("home", "tmp", "repository", "bin"):
            (folder / name).mkdir(parents=True)
        self.git("init", "-q", "-b", "main")
        (folder / "repository" / "a.txt").write_text("old\n")
        self.git("add", ".")
        self.git("-c", "user.name=a", "-c", "user.email=a@a.invalid", "commit", "-qm", "first")
        self.worktree = folder / "worktree"
        self.git("worktree", "add", "-q", str(self.worktree))

    def git(self, *words: str) -> str:
        argv = ["git", "-C", str(self.folder / "repository"), *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout

    def changed(self) -> list[str]:
        """Return what git would take from the worktree."""
        argv = ["git", "-C", str(self.worktree), "status", "--porcelain", "-uall"]
        lines = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()
        return sorted(line[3:] for line in lines)

    def stand_in(self, script: str) -> None:
        """Install a shell script as a program of that name."""
        path = self.folder / "bin" / self.program
        path.write_text(f"#!/bin/sh\n{script}")
        path.chmod(0o755)

    def replay(self, recording: str, *, status: int = 0, before: str = "") -> None:
        """Install a program of that name that prints what the real one did."""
        path = shlex.quote(
            str(of_now(RECORDINGS / recording.partition("-")[0] / recording, self.folder / "bin" / recording))
        )
        self.stand_in(f"cat >stdin.seen 2>/dev/null; mv stdin.seen ../stdin\n{before}\ncat {path}\nexit {status}\n")

    def perform(
        self,
        *,
        path: str = "",
        model: str | None = None,
        given: Mapping[str, str] = KEYS,
        env: Mapping[str, str] | None = None,
        stop: Callable[[], bool] = lambda: False,
        description: str = "Put the word new into b.txt.",
        priors: str = "",
    ) -> AgentAnswer:
        assignment = self.assignment(path, model, env or {}, description)
        return perform_cli(assignment, stop=stop, priors=priors, lookup=given.get)

    def assignment(self, path: str, model: str | None, env: Mapping[str, str], description: str) -> Assignment:
        folders = os.pathsep.join(filter(None, (str(self.folder / "bin"), path, os.environ["PATH"])))
        home, tmp = self.folder / "home", self.folder / "tmp"
        order = WorkOrder(
            order_id="night.words.1",
            token="token",
            run="night",
            task="words",
            attempt=1,
            hub="hub",
            target="main",
            base="0123",
            title="A new word",
            description=description,
            agent=CliAgent(program=self.program, model=model or MODELS[self.program]),
            limits=self.limits,
            issued_at=1.0,
            start_by=2.0,
        )
        return Assignment(
            order=order,
            worktree=self.worktree,
            home=home,
            tmp=tmp,
            env=command_environment({"PATH": folders}, env, home, tmp),
            log=self.folder / "logs" / "agent.log",
            transcript=self.folder / "logs" / "transcript.jsonl",
            confined=OPEN,
        )


def of_now(recording: Path, copy: Path) -> Path:
    """Copy a recording, and let its usage limit end in an hour, because one in the past is none."""
    soon = int(time.time()) + 3600
    copy.write_text(re.sub(r'("resets_?[aA]t":\s?)\d{10}', rf"\g<1>{soon}", recording.read_text()))
    return copy


def folder_of(program: CliProgram) -> str:
    """Return the folder of the real program, on the PATH or below FORGEPOOL_TEST_CLIS. Skip without one."""
    below = Path(os.environ.get("FORGEPOOL_TEST_CLIS", "/nowhere"))
    modules = below / "node_modules"
    places = [below, below / "bin", modules / ".bin", *modules.glob("@anthropic-ai/claude-code-*")]
    path = os.pathsep.join([*map(str, places), os.environ["PATH"]])
    found = shutil.which(program, path=path)
    if found is None:
        pytest.skip(f"{program} is not installed; FORGEPOOL_TEST_CLIS may name a folder that has it")
    return str(Path(found).parent)


def addresses(url: str) -> dict[str, str]:
    """Return keys and addresses of a local server, for every program."""
    return {**KEYS, "ANTHROPIC_BASE_URL": url, "OPENAI_BASE_URL": f"{url}/v1"}


def writes_b(worktree: Path, *, then: Say | Fault | None = None) -> Brain:
    """Return a model that writes b.txt with any tools it is offered, and then ends or does as it is told."""
    path = str(worktree / "b.txt")
    calls = {
        "Write": {"file_path": path, "content": "new\n"},
        "write": {"filePath": path, "content": "new\n"},
        "exec_command": {"cmd": "echo new > b.txt"},
    }

    def brain(seen: Seen) -> Say | Fault:
        if seen.results:
            return then or Say(text="b.txt has the new word.")
        if tool := next((name for name in calls if name in seen.tools), None):
            return Say(text="I write it.", calls=[(tool, calls[tool])])
        # No tools: this is aider, which expects the whole file in the answer.
        return then or Say(text="b.txt has the new word.\n\nb.txt\n```\nnew\n```\n")

    return brain


def job_of(program: CliProgram, folder: Path) -> ProgramJob:
    return ProgramJob(
        executable=program,
        model=None,
        title="",
        worktree=folder,
        home=folder,
        tmp=folder,
        prompt=folder / "prompt",
        limits=Limits(),
        given={},
        confined=False,
    )


def reader_of(program: CliProgram, folder: Path) -> Any:
    return PROGRAMS[program].reader(job_of(program, folder))
