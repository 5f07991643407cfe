"""The host process of a one-machine run is forked before the run starts, and replaced when it dies."""

import os
import subprocess
import sys
from pathlib import Path

_HOST = """\
import os, signal, sys
from pathlib import Path
from forgepool.orchestrator.launch.embedded import prepare_host, start
from forgepool.workers.queue.leases import present
from forgepool.workers.queue.broker import connect
from forgepool.workers.schema.settings import Settings

def await_worker(pid):
    while not any(worker.pid == pid for worker in present(connect(parts.url))):
        assert parts.host.running()

settings = Settings()
seed = prepare_host(settings)
parts = start(settings, logs=Path(sys.argv[1]), workers=1, seed=seed)
first = parts.host.pid
try:
    await_worker(first)
    os.kill(first, signal.SIGKILL)
    while parts.mend() != ["workers"]:
        pass
    await_worker(parts.host.pid)
    print(first == seed.child.pid, parts.host.pid != first)
finally:
    parts.stop()
"""


def test_a_process_forked_ahead_becomes_the_host_and_a_new_one_replaces_it(tmp_path: Path) -> None:
    env = {**os.environ, "FORGEPOOL_HOME": str(tmp_path / "home"), "FORGEPOOL_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-c", _HOST, str(tmp_path / "logs")]
    ended = subprocess.run(command, env=env, capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("True True\n", "")
