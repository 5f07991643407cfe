"""A person's folder for one test: a repository, a home and a cache, and the `forgepool` command in it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import warm
import yaml

FORGEPOOL = (sys.executable, "-m", "forgepool.orchestrator.cli")
IDENTITY = {
    "GIT_AUTHOR_NAME": "A Person",
    "GIT_AUTHOR_EMAIL": "person@localhost",
    "GIT_COMMITTER_NAME": "A Person",
    "GIT_COMMITTER_EMAIL": "person@localhost",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}
_REPOSITORY = Path(__file__).parents[2]
_LONGEST_S = 120.0

Tasks = Mapping[str, Mapping[str, object] | str]
"""
Tasks of a plan by their ids. A text stands for a task whose command it is; that task declares the file `<id>.txt`.
"""


def await_that(holds: Callable[[], object], what: str, within_s: float = _LONGEST_S) -> None:
    """Wait until the condition holds, or fail the test."""
    until = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until, f"it did not come about in {within_s:.0f} s that {what}"
        time.sleep(0.02)


@dataclass(frozen=True, kw_only=True)
class Said:
    """The exit status and the output of a command."""

    status: int
    out: str
    err: str

    def is_refusal(self, status: int, *words: str) -> None:
        """Assert this status, nothing on standard output, and one sentence with these words on standard error."""
        assert self.status == status, self
        self.is_sentence(*words)
        assert self.out == "", self

    def is_sentence(self, *words: str) -> None:
        """Assert that standard error is one sentence with these words in it."""
        assert self.err.count("\n") == 1, self
        assert self.err.startswith("forgepool: "), self
        for word in words:
            assert word in self.err, (word, self)
        self.has_no_traceback()

    def has_no_traceback(self) -> None:
        for text in (self.out, self.err):
            assert "Traceback" not in text, text

    @property
    def answer(self) -> dict[str, Any]:
        """Return the JSON object it printed."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found

    def outcomes(self) -> dict[str, str]:
        """Return the phase of each task, from a `--json` answer."""
        return {task["task"]: task["phase"] for task in self.answer["tasks"]}

    def details(self) -> dict[str, str]:
        return {task["task"]: task["detail"] for task in self.answer["tasks"]}


@dataclass(kw_only=True)
class Going:
    """A command that runs; all its output is kept."""

    process: "subprocess.Popen[str]"
    said: dict[str, list[str]] = field(default_factory=lambda: {"out": [], "err": []})
    _readers: list[threading.Thread] = field(default_factory=list)

    def listen(self) -> None:
        for name, stream in (("out", self.process.stdout), ("err", self.process.stderr)):
            assert stream is not None
            reader = threading.Thread(target=self.said[name].extend, args=(stream,), daemon=True)
            reader.start()
            self._readers.append(reader)

    def has_said(self, words: str) -> bool:
        return any(words in line for lines in self.said.values() for line in lines)

    def await_words(self, words: str) -> None:
        await_that(lambda: self.has_said(words) or self.process.poll() is not None, f"it says {words!r}")
        assert self.has_said(words), self.said

    def ended(self) -> Said:
        status = self.process.wait(timeout=_LONGEST_S)
        for reader in self._readers:
            reader.join(timeout=_LONGEST_S)
        return Said(status=status, out="".join(self.said["out"]), err="".join(self.said["err"]))


@dataclass(frozen=True, kw_only=True)
class Premises:
    """A test's own repository, home and cache, all below `folder`."""

    folder: Path
    home: Path
    cache: Path
    sandbox: str = "auto"

    def unconfined(self) -> "Premises":
        """Return the same without a sandbox, for tasks that use files outside their folder to wait for the test."""
        return replace(self, sandbox="off")

    @classmethod
    def at(cls, folder: Path) -> "Premises":
        return cls(folder=folder, home=folder / "home", cache=folder / "cache")

    @property
    def repo(self) -> Path:
        return self.folder / "repo"

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "FORGEPOOL_"))}
        own = {
            "FORGEPOOL_HOME": str(self.home),
            "FORGEPOOL_CACHE": str(self.cache),
            "FORGEPOOL_SANDBOX": self.sandbox,
            # A killed worker is noticed after a few seconds, instead of the ten that suit a real run.
            "FORGEPOOL_LEASE_TTL_S": "4",
        }
        return {**kept, **IDENTITY, **own, **extra}

    def forgepool(self, *argv: str | Path, env: Mapping[str, str] | None = None) -> Said:
        """Run the command to its end."""
        ran = warm.forgepool(argv, cwd=self.folder, env=self.environment(env or {}))
        return Said(status=ran.returncode, out=ran.stdout, err=ran.stderr)

    @contextmanager
    def going(self, *argv: str | Path, env: Mapping[str, str] | None = None) -> Iterator[Going]:
        """Start the command, and end it at the end of the block."""
        process = subprocess.Popen(
            [*FORGEPOOL, *map(str, argv)],
            cwd=self.folder,
            env=self.environment(env or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        going = Going(process=process)
        going.listen()
        try:
            yield going
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(timeout=15)
                except subprocess.TimeoutExpired:
                    process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                assert stream is not None
                stream.close()

    def run(self, plan: Path, *more: str | Path, env: Mapping[str, str] | None = None) -> Said:
        """Run `forgepool run` with a plan on the repository."""
        return self.forgepool("run", plan, "--repo", self.repo, *more, env=env)

    def plan(self, tasks: Tasks, **keys: object) -> Path:
        """Write a plan file. A task given as text is its command, and declares the file `<id>.txt`."""
        entries = []
        for name, task in tasks.items():
            whole = {"files": [f"{name}.txt"], "agent": {"command": task}} if isinstance(task, str) else task
            entries.append({"id": name, **whole})
        document = {"version": 1, "name": "p", "checks": {"sound": "test ! -e unsound"}}
        path = self.folder / "plan.yaml"
        path.write_text(yaml.safe_dump({**document, **keys, "tasks": entries}, sort_keys=False))
        return path

    def git(self, *argv: str | Path, folder: Path | None = None) -> str:
        """Run git in the repository as a person would."""
        ran = subprocess.run(
            ["git", *map(str, argv)],
            cwd=folder or self.repo,
            env=self.environment({}),
            check=False,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
        )
        assert ran.returncode == 0, f"git {argv}: {ran.stderr}"
        return ran.stdout.strip("\n")

    def commit(self, files: Mapping[str, str], message: str = "change") -> str:
        """Commit on the branch that is checked out in the repository."""
        for name, content in files.items():
            (self.repo / name).write_text(content)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def commit_on(self, branch: str, files: Mapping[str, str], message: str = "by somebody else") -> str:
        """Push a commit to a branch of the repository from another clone, as another person would."""
        clone = self.folder / "elsewhere"
        if not clone.exists():
            self.git("clone", "-q", self.repo, clone, folder=self.folder)
        self.git("fetch", "-q", folder=clone)
        self.git("checkout", "-q", "--detach", f"origin/{branch}", folder=clone)
        for name, content in files.items():
            (clone / name).write_text(content)
        self.git("add", "-A", folder=clone)
        self.git("commit", "-q", "-m", message, folder=clone)
        self.git("push", "-q", "origin", f"HEAD:refs/heads/{branch}", folder=clone)
        return self.git("rev-parse", "HEAD", folder=clone)

    def landed(self, branch: str = "forgepool/p") -> list[str]:
        """Return the tasks named in the trailers of the branch's first-parent history, oldest first."""
        form = "--format=%(trailers:key=Forgepool-Task,valueonly,separator=%x2C)"
        said = self.git("log", "--first-parent", "--reverse", form, branch)
        return [line for line in said.splitlines() if line]

    def files(self, branch: str = "forgepool/p") -> list[str]:
        said = self.git("ls-tree", "-r", "-z", "--name-only", branch)
        return [name for name in said.split("\0") if name]

    def run_name(self) -> str:
        """Return the name of the only run of this home."""
        (run,) = (self.home / "runs").iterdir()
        return run.name


def await_file(path: Path) -> str:
    """Return a shell command that ends as soon as the file exists."""
    return f"while ! test -e '{path}'; do sleep 0.05; done"
