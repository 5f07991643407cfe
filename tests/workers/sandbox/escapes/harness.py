"""
Run all attempts under one set of layers in a world of its own, and report of each whether it has succeeded.

It is a program, so that it can run as an ordinary user where the tests run as root: `python harness.py HELD FOLDER`.
The answer is JSON, and `HELD` is one of `HOLDS`. The project, its packages and the folders `inside` and `around` are on
`PYTHONPATH`.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from attempt import Layer
from holds import HOLDS
from surroundings import World, secret, world
from table import ATTEMPTS

from forgepool.workers.sandbox.launch import readable_paths, seccomp
from forgepool.workers.sandbox.launch.confined import arguments, bubblewrap_program, list_copied_files, make_etc_files
from forgepool.workers.sandbox.launch.launch import launch
from forgepool.workers.sandbox.layers import lease_uid
from forgepool.workers.sandbox.run.process import Command, run
from forgepool.workers.schema.confinement import OPEN, Bounds, Confinement

if TYPE_CHECKING:
    from forgepool.workers.sandbox.launch.launcher import Request

SECRET = "FORGEPOOL_SECRET_OF_THE_HARNESS"
"""A variable it is started with, as harnesses have keys in their environment."""
HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[3]
_TIMEOUT_S = 60
_BWRAP = frozenset(("user", "root", "pids", "network", "ipc"))
_UNSHARED = {"--unshare-pid": "pids", "--unshare-net": "network", "--unshare-ipc": "ipc"}


def main(held: str, folder: Path) -> None:
    os.umask(0o077)
    folder = Path(os.path.realpath(folder))
    (folder / "world").mkdir()
    os.environ |= _environment(folder / "world")
    os.chdir(folder / "world")
    seed = os.environ[SECRET].removeprefix(secret("", "environment"))
    with world(folder / "world", seed) as around:
        payload = _payload(around)
        said = {each["name"]: each for each in map(json.loads, _carry_out(held, around, payload))}
        results = {name: _result(around, name, said.get(name)) for name in ATTEMPTS}
    print(json.dumps(results))


def _environment(folder: Path) -> dict[str, str]:
    names = ("AUTHOR", "COMMITTER")
    git = {f"GIT_{each}_{what}": "somebody@example.org" for each in names for what in ("NAME", "EMAIL")}
    return {**git, "HOME": str(folder / "home"), "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}


def _result(around: World, name: str, said: "dict[str, object] | None") -> dict[str, object]:
    if said is None:
        return {"escaped": None, "said": "it was not carried out"}
    escaped = ATTEMPTS[name].succeeded(around, name, said.get("said"))
    return {"escaped": bool(escaped), "said": str(said.get("refused", said.get("said")))[:300]}


def _payload(around: World) -> tuple[str, ...]:
    place = around.worktree / "attempts"
    shutil.copytree(HERE / "inside", place, ignore=shutil.ignore_patterns("__pycache__"))
    around.stage.write(place / "stage.json")
    return (os.path.realpath(sys.executable), "-I", "-S", str(place / "runner.py"), str(place / "stage.json"))


def _carry_out(held: str, around: World, payload: tuple[str, ...]) -> list[str]:
    if held in ("off", "bubblewrap", "landlock", "all but uid"):
        return _by_the_door(held, around, payload)
    if held == "launcher":
        return _by_the_launcher(around, payload, None)
    if held == "uid":
        with lease_uid() as uid:
            return _by_the_launcher(around, payload, uid)
    layers = HOLDS[held]
    argv, descriptors = payload, ()
    if layers & _BWRAP:
        argv, descriptors = _in_namespaces(around, payload, layers)
    if what := _what(around, layers):
        argv = (sys.executable, "-I", "-S", str(HERE / "held.py"), str(PROJECT), json.dumps(what), *argv)
    done = subprocess.run(
        argv, cwd=around.worktree, stdout=subprocess.PIPE, close_fds=False, start_new_session=True, timeout=_TIMEOUT_S
    )
    for each in descriptors:
        os.close(each)
    return done.stdout.decode().splitlines()


def _confinement(around: World, level: str, uid: int | None) -> Confinement:
    if level == "off":
        return OPEN
    return Confinement(
        level=level,  # type: ignore[arg-type]  # one of HOLDS
        writable=(around.worktree, around.own_home, around.tmp),
        protected=(around.checkout.pointer,),
        readable=(around.mirror,),
        tmp=around.tmp,
        home=around.own_home,
        uid=uid,
        bounds=Bounds(file_bytes=1 << 30),
    )


def _command_environment(around: World) -> dict[str, str]:
    names = ("PATH", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM")
    return {"HOME": str(around.own_home), **{name: os.environ[name] for name in names}}


def _by_the_door(held: str, around: World, payload: tuple[str, ...]) -> list[str]:
    if os.geteuid() == 0 and held in ("bubblewrap", "landlock"):
        with lease_uid() as uid:
            return _ran(around, payload, _confinement(around, held, uid))
    return _ran(around, payload, _confinement(around, "bubblewrap" if held == "all but uid" else held, None))


def _ran(around: World, payload: tuple[str, ...], confined: Confinement) -> list[str]:
    ended = run(
        Command(
            argv=payload,
            cwd=around.worktree,
            env=_command_environment(around),
            log=around.folder / "log",
            timeout_s=_TIMEOUT_S,
            confined=confined,
        )
    )
    if ended.how != "exit" or ended.status != 0:
        sys.exit(f"{ended.how} {ended.status}: {ended.head} {ended.tail}")
    return ended.log.read_text().splitlines()


def _by_the_launcher(around: World, payload: tuple[str, ...], uid: int | None) -> list[str]:
    """Prepare as the launcher does for bwrap, but without bwrap."""
    request: Request = {
        "argv": list(payload),
        "env": _command_environment(around),
        "cwd": str(around.worktree),
        "limits": {"core": 0},
    }
    if uid is not None:
        tools = readable_paths.tool_folders(str(Path(payload[0]).parent))
        request["uid"] = uid
        request["mounts"] = {
            "own": [str(each) for each in (around.worktree, around.own_home, around.tmp)],
            "kept": [str(around.mirror)],
            "seen": [str(each) for each in tools],
        }
    reading, writing = os.pipe()
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a descriptor
        pid = launch(request, [nothing.fileno(), writing, writing])
    os.close(writing)
    with open(reading, "rb") as pipe:  # noqa: PTH123 - a descriptor
        said = pipe.read().decode()
    os.waitpid(pid, 0)
    return said.splitlines()


def _what(around: World, layers: frozenset[Layer]) -> dict[str, object]:
    what: dict[str, object] = {}
    if "limits" in layers:
        what["limits"] = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": 1 << 30, "RLIMIT_NOFILE": 16_384}
    if "scope" in layers:
        what["scope"] = True
    if "files" in layers:
        writable = [str(each) for each in (around.worktree, around.own_home, around.tmp)]
        tools = [str(each) for each in readable_paths.tool_folders(str(Path(os.path.realpath(sys.executable)).parent))]
        what["files"] = ([*readable_paths.SYSTEM, "/etc", "/proc", str(around.mirror), *tools, *writable], writable)
    if "filter" in layers:
        what["filter"] = "none"
    elif "seccomp" in layers and not layers & _BWRAP:
        what["filter"] = "own"
    return what


def _in_namespaces(
    around: World, payload: tuple[str, ...], layers: frozenset[Layer]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    program = str(bubblewrap_program())
    if "root" not in layers:
        unshared = [word for word, layer in _UNSHARED.items() if layer in layers]
        proc = ("--proc", "/proc") if "pids" in layers else ()
        words = ("--unshare-user", *unshared, "--cap-drop", "ALL", "--die-with-parent", "--dev-bind", "/", "/", *proc)
        return (program, *words, "--", *payload), ()
    confined = _confinement(around, "bubblewrap", None)
    texts = {name: text.encode() for name, text in make_etc_files(confined).items()}
    texts |= {"seccomp": seccomp.program(network="own"), "status": b""}
    numbers = {name: _file(text) for name, text in texts.items()}
    numbers |= {name: _file(Path("/etc", name).read_bytes()) for name in list_copied_files()}
    tools = [
        each
        for each in readable_paths.tool_folders(os.pathsep.join((os.environ["PATH"], str(Path(payload[0]).parent))))
        if not each.is_relative_to(around.folder)
    ]
    words = arguments(confined, _command_environment(around), around.worktree, tools=tools, numbers=numbers)
    return (program, *_without(words, layers), "--", *payload), tuple(numbers.values())


def _without(words: list[str], layers: frozenset[Layer]) -> list[str]:
    """Keep only those of bwrap's arguments that belong to the layers."""
    kept = [word for word in words if _UNSHARED.get(word, "user") in layers]
    if "seccomp" not in layers:
        place = kept.index("--seccomp")
        del kept[place : place + 2]
    if "pids" not in layers:  # only who owns the namespace may mount its /proc
        place = kept.index("--proc")
        kept[place : place + 2] = ["--bind", "/proc", "/proc"]
    return kept


def _file(content: bytes) -> int:
    file = os.memfd_create("held")
    os.write(file, content)
    os.lseek(file, 0, os.SEEK_SET)
    os.set_inheritable(file, True)
    return file


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
