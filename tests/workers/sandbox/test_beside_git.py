"""Commands run while the harness's own git works in another thread, and the end of one does not affect the other."""

import os
import threading
import time
from pathlib import Path

from repositories import git, write

from forgepool.workers.sandbox.run.process import Command, run, shell
from forgepool.workers.schema.confinement import OPEN
from forgepool.worktrees.hub.mirror import open_mirror


def test_a_command_that_ends_does_not_end_the_harness_git(tmp_path: Path) -> None:
    """The push succeeds, although a command ended during it and left a daemon."""
    hub, work = tmp_path / "hub.git", tmp_path / "work"
    git(tmp_path, "init", "-q", "-b", "main", str(work))
    write(work, {"a": "1\n"})
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "first")
    git(tmp_path, "clone", "-q", "--bare", str(work), str(hub))
    hook = hub / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/begun\nwhile test ! -e {tmp_path}/go; do sleep 0.02; done\n")
    hook.chmod(0o755)
    mirror = open_mirror(str(hub), tmp_path / "cache")
    tip = mirror.hub_refs("refs/heads/main")["refs/heads/main"]
    said: list[object] = []

    def push() -> None:
        _await(tmp_path / "running")
        # Not the mirror's own push, which would retry.
        said.append(mirror.git.run("push", str(hub), f"{tip}:refs/forgepool/x", ok=range(-64, 256)).status)

    thread = threading.Thread(target=push)
    thread.start()
    ended = run(
        Command(
            argv=shell("setsid sleep 60 & echo $!; touch running; while test ! -e begun; do sleep 0.02; done"),
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"]},
            log=tmp_path / "log",
            timeout_s=20,
            confined=OPEN,
        )
    )
    assert ended.succeeded
    assert not Path(f"/proc/{ended.tail.strip()}").exists(), "the command's own daemon is not spared"
    (tmp_path / "go").touch()
    thread.join()
    assert said == [0]


def _await(path: Path) -> None:
    until = time.monotonic() + 20
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.01)
