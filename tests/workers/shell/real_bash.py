"""
The real bash, with programs that only record how they were called.

The other programs on its PATH only run programs (`env`, `xargs`, `find`, shells). Each script runs in an empty folder,
in bubblewrap or as the user `nobody`. No program that writes or removes files can be called.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("m1", "m2", "rm", "git", "push", "x", "-rf", "f1", "A=1", "=", "{", "}", "[@]", "a", "b", "ls", "-x")
RUNNERS = ("env", "timeout", "xargs", "find", "nohup", "nice", "setsid", "stdbuf", "bash", "sh", "cat", "seq", "wc")
_DRIVER = """
set +m
ulimit -t 2 -f 100000
for script in "$1"/s/*; do
  number=${script##*/}
  mkdir -p "$1/d/$number" && cd "$1/d/$number" && : >f1 >-rf || exit 9
  ( exec 9>>"$1/l/$number" </dev/null >/dev/null 2>&1; PATH=$1/bin; text=$(<"$script"); set --; eval "$text" )
done
"""
_DRIVER = _DRIVER.replace('text=$(<"$script")', 'IFS= read -r -d "" text <"$script"')
_STUB = """#!/bin/dash
program=${0##*/}
printf '%s\\0' $(($# + 1)) "$program" "$@" >&9
case $#$1 in *1|*x|*f) exit 1;; esac
exit 0
"""
_NOBODY = 65534


@dataclass(frozen=True)
class Ran:
    """The programs a script ran with their words; None if it did not end."""

    argvs: tuple[tuple[str, ...], ...] | None


class RealBash:
    """Runs hundreds of scripts in one process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._programs = folder / "bin"
        self._programs.mkdir(parents=True)
        self._batches = 0
        self._wall: list[str] = []
        for name in PROGRAMS:
            (self._programs / name).write_text(_STUB)
            (self._programs / name).chmod(0o755)
        for name in RUNNERS:
            if (real := shutil.which(name)) is not None:
                (self._programs / name).symlink_to(Path(real).resolve() if name == "sh" else real)
        walls = [_bubblewrap(folder), []] if shutil.which("bwrap") else [[]]
        self.works = any(self._works(wall) for wall in walls)

    def run(self, scripts: Sequence[str]) -> list[Ran]:
        """Return what each script really ran."""
        self._batches += 1
        place = self._folder / f"b{self._batches}"
        for name in ("s", "l", "d"):
            (place / name).mkdir(parents=True)
        (place / "bin").symlink_to(self._programs)
        for index, script in enumerate(scripts):
            (place / "s" / f"{index:06}").write_text(script)
        for path in (self._folder, place, *place.iterdir()):
            path.chmod(0o777)
        ended = self._start(place)
        found = [self._ran(place / "l" / f"{index:06}", ended) for index in range(len(scripts))]
        shutil.rmtree(place)
        return found

    def _start(self, place: Path) -> bool:
        argv = [*self._wall, "bash", "--norc", "--noprofile", "-c", _DRIVER, "driver", str(place)]
        user = _NOBODY if os.getuid() == 0 and not self._wall else None
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        try:
            subprocess.run(argv, check=False, env=environment, user=user, timeout=60, capture_output=True)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _works(self, wall: list[str]) -> bool:
        self._wall = wall
        return self.run(["m1 a"]) == [Ran(argvs=(("m1", "a"),))]

    def _ran(self, log: Path, ended: bool) -> Ran:
        if not log.exists():
            return Ran(argvs=() if ended else None)
        words = log.read_bytes().decode(errors="surrogateescape").split("\0")[:-1]
        argvs: list[tuple[str, ...]] = []
        at = 0
        while at < len(words):
            end = at + 1 + int(words[at])
            argvs.append(tuple(words[at + 1 : end]))
            at = end
        return Ran(argvs=tuple(argvs))


def _bubblewrap(folder: Path) -> list[str]:
    return [
        "bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp",
        "--bind", str(folder), str(folder), "--unshare-all", "--die-with-parent", "--cap-drop", "ALL",
        *(["--uid", str(_NOBODY)] if os.getuid() == 0 else []),
    ]  # fmt: skip
