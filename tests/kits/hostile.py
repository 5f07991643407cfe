"""
A hostile repository: it attacks those who fetch it, check it out, commit to it or run its tests.

It uses git's own features: hooks, filters, merge drivers, textconv, submodules, links that lead out, and names that
look like options.

Its `conftest.py` tries `ATTACKS` when tests are collected, and writes `REPORT` at the top of the folder it runs in. The
report is a JSON object of attack and result, `true` or a reason.

All attacks aim at folders, sockets and processes that the caller gives, so that it can be run without a sandbox.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

REPORT = "attacks.json"
ATTACKS = (
    *("write outside", "write through a link", "write at home", "read a secret", "read another's environment"),
    *("signal another process", "connect by TCP", "connect by a socket file", "replace .git", "leave a daemon"),
    *("change the hub", "make a file run by the person's git"),
)
_HOOKS = ("post-checkout", "pre-commit", "commit-msg", "post-commit", "post-index-change", "pre-push", "post-merge")
ODD_NAMES = (
    *("new\nline", "tab\tname", "\x1b[31mred\x1b[0m", "-rf", "--upload-pack=touch canary", "-", " ", "quo'te\"s"),
    *(
        ":(exclude)x",
        "$(touch canary)",
        "`touch canary`",
        "; touch canary",
        "*",
        "back\\slash",
        "\u202egnp.x",
        "a" * 255,
    ),
)
_SLEEPER = "import signal, time; signal.signal(signal.SIGUSR1, print); print('begun', flush=True); time.sleep(600)"
_CONFTEST = Path(__file__).with_name("hostile_conftest.py")


class Git(Protocol):
    def __call__(self, folder: Path, /, *argv: str) -> object: ...


@dataclass(frozen=True, kw_only=True)
class Aims:
    """The targets of the attacks. `pid` is a waiting process; something listens at `port` and `socket`."""

    outside: str
    """Folder with a file `secret`, whose text begins with SECRET."""
    home: str
    pid: int
    port: int
    socket: str
    hub: str


@dataclass(frozen=True, kw_only=True)
class Hostile:
    path: Path
    """A repository with one commit on `main`, and a work tree."""
    canary: Path
    """File that exists once git has run a program of the repository."""


@contextmanager
def aimed_at(folder: Path, hub: Path) -> Iterator[Aims]:
    """Yield targets below a folder, with live listeners; `hub` is a git folder."""
    for name in ("outside", "person"):
        (folder / name).mkdir()
    (folder / "outside" / "secret").write_text("SECRET")
    short = Path(tempfile.mkdtemp())  # a socket's path holds about a hundred bytes
    with ExitStack() as open_:
        words = [sys.executable, "-I", "-S", "-c", _SLEEPER]
        sleeper = open_.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE, env={"KEY": "SECRET"}))
        open_.callback(sleeper.kill)
        assert sleeper.stdout is not None
        assert sleeper.stdout.readline() == b"begun\n"
        tcp, unix = (open_.enter_context(socket.socket(kind)) for kind in (socket.AF_INET, socket.AF_UNIX))
        tcp.bind(("127.0.0.1", 0))
        unix.bind(str(short / "s"))
        tcp.listen()
        unix.listen()
        open_.callback(shutil.rmtree, short)
        yield Aims(
            outside=str(folder / "outside"),
            home=str(folder / "person"),
            hub=str(hub),
            pid=sleeper.pid,
            port=tcp.getsockname()[1],
            socket=str(short / "s"),
        )
        assert sleeper.poll() is None, "it was killed"


def hostile_repository(folder: Path, aims: Aims, git: Git) -> Hostile:
    """Make the repository in `folder`, which is empty. `git(folder, *argv)` runs git as a person would."""
    canary = Path(aims.outside) / "canary"
    program = Path(aims.outside) / "program.sh"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {canary}\ncat\n')
    program.chmod(0o755)
    git(folder, "init", "-q", "-b", "main", ".")
    for name, text in _files(program).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for name in _HOOKS:
        (folder / ".githooks" / name).chmod(0o755)
    _put_odd_names(folder / "names")
    _put_links(folder, aims)
    (folder / "aims.json").write_text(json.dumps(asdict(aims)))
    (folder / "conftest.py").write_text(_CONFTEST.read_text())
    git(folder, "add", "-A")
    git(folder, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},vendor/lib")
    git(folder, "commit", "-q", "-m", "harmless")
    _turn_hostile(folder, program, git)
    return Hostile(path=folder, canary=canary)


def achieved(report: str) -> dict[str, bool | str]:
    """Return the attacks that succeeded according to a report. The result should be empty."""
    said: Mapping[str, bool | str] = json.loads(report)
    assert set(said) == set(ATTACKS), "the report is not of these attacks"
    return {name: how for name, how in said.items() if how is True}


def _files(program: Path) -> dict[str, str]:
    hooks = {f".githooks/{name}": f"#!/bin/sh\nexec {program} hook </dev/null\n" for name in _HOOKS}
    return hooks | {
        "README.md": "A project like any other. $Format:%H$\n",
        "src/app.py": "def answer():\n    return 42\n",
        "test_app.py": "from src.app import answer\n\n\ndef test_answer():\n    assert answer() == 42\n",
        ".gitattributes": "* filter=evil diff=evil merge=evil export-subst\nsrc/*.py ident\n",
        ".gitmodules": '[submodule "lib"]\n\tpath = vendor/lib\n\turl = ext::sh -c "'
        + f'{program}" \n\tupdate = !{program}\n',
        ".envrc": f"{program}\n",
        ".gitconfig": f"[core]\n\tfsmonitor = {program}\n",
    }


def _put_odd_names(folder: Path) -> None:
    folder.mkdir()
    for name in ODD_NAMES:
        (folder / name).write_text("odd\n")
    (folder / os.fsdecode(b"not-utf8-\xff\xfe")).write_text("odd\n")


def _put_links(folder: Path, aims: Aims) -> None:
    (folder / "escape").symlink_to(aims.outside)
    (folder / "secret.txt").symlink_to(Path(aims.outside) / "secret")
    (folder / "passwords").symlink_to("/etc/passwd")
    (folder / "self").symlink_to("/proc/self")
    (folder / "round").symlink_to("round")
    (folder / "up").symlink_to("../../../../../../../..")


def _turn_hostile(folder: Path, program: Path, git: Git) -> None:
    """
    Set the repository's own configuration and hooks. A clone does not copy them, but work in the repository itself
    meets them.
    """
    for key in ("filter.evil.clean", "filter.evil.smudge", "diff.evil.textconv", "diff.external", "core.fsmonitor"):
        git(folder, "config", key, str(program))
    git(folder, "config", "merge.evil.driver", f"{program} %O %A %B")
    git(folder, "config", "core.hooksPath", ".githooks")
