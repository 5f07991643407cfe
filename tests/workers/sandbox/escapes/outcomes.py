"""
Runs of all attempts, by root and by an ordinary user, each once, and two at a time.

Where the tests run as root, the ordinary user is an unused uid, because root's rights would hide the effect of layers.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

import git
from house import TREE
from table import ATTEMPTS

HERE = Path(__file__).resolve().parent
_NEEDED = "import sys; assert sys.version_info >= (3, 11); import git; import forgepool.workers.sandbox.run.process"
_PATH = "/usr/local/bin:/usr/bin:/bin"
_TIMEOUT_S = 120


class NoInterpreter(Exception):
    """Raised where no Python can be run by an ordinary user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    escaped: bool | None
    """None if it was not carried out."""
    said: str


Of = Callable[[str, str], dict[str, Outcome]]


class Outcomes:
    def __init__(self, uid: int) -> None:
        """`uid` is that of the ordinary user."""
        self._uid = uid
        self._at_once = ThreadPoolExecutor(max_workers=2)
        self._runs: dict[tuple[str, str], Future[dict[str, Outcome]]] = {}

    def begin(self, runs: Iterable[tuple[str, str]]) -> None:
        """Start the runs that will be needed, in the background."""
        for held, who in runs:
            if (held, who) not in self._runs:
                self._runs[held, who] = self._at_once.submit(self._run, held, who)

    def of(self, held: str, who: str) -> dict[str, Outcome]:
        """Return the outcomes of a run. || Raises: NoInterpreter: for an ordinary user."""
        self.begin([(held, who)])
        return self._runs[held, who].result()

    def close(self) -> None:
        self._at_once.shutdown(cancel_futures=True)

    def _run(self, held: str, who: str) -> dict[str, Outcome]:
        other = who == "user" and os.geteuid() == 0
        python = _usable_by(self._uid) if other else sys.executable
        folder = Path(tempfile.mkdtemp(prefix="forgepool-escape-"))
        try:
            folder.chmod(0o755)
            if other:
                os.chown(folder, self._uid, self._uid)
            done = subprocess.run(
                (python, str(HERE / "harness.py"), held, str(folder)),
                env=_environment(folder),
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
                **({"user": self._uid, "group": self._uid, "extra_groups": ()} if other else {}),  # type: ignore[call-overload]  # typed by name
            )
        finally:
            shutil.rmtree(folder)
        if done.returncode != 0:  # each test reports it in a few words
            return dict.fromkeys(ATTEMPTS, Outcome(escaped=None, said=f"{held} for {who}: {done.stderr[-1000:]}"))
        return {name: Outcome(**fields) for name, fields in json.loads(done.stdout).items()}


def _environment(folder: Path) -> dict[str, str]:
    """Return an environment with a secret, as a harness has one."""
    return {
        "PATH": _PATH,
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "PYTHONPATH": os.pathsep.join(
            map(str, (TREE, Path(git.__file__).parents[1], HERE / "inside", HERE / "around"))
        ),
        "PYTHONDONTWRITEBYTECODE": "1",
        "FORGEPOOL_SECRET_OF_THE_HARNESS": f"environment-{token_hex(8)}",
    }


def _usable_by(uid: int) -> str:
    """Find a Python that all users may read; the tests' own is often in a person's home."""
    for python in (sys.executable, "/usr/local/bin/python3", "/usr/bin/python3"):
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            subprocess.run(
                (python, "-c", _NEEDED),
                env=_environment(Path("/")),
                user=uid,
                group=uid,
                extra_groups=(),
                cwd="/",
                capture_output=True,
                check=True,
            )
            return python
    raise NoInterpreter(f"no Python here can read {TREE / 'forgepool'} as an ordinary user; install one below /usr")
