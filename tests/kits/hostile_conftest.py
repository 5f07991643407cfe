"""Copied into a hostile repository (`hostile.py`), it tries its attacks on the targets in `aims.json` beside it."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
AIMS = json.loads((HERE / "aims.json").read_text())
OUTSIDE, HOME, HUB = (pathlib.Path(AIMS[name]) for name in ("outside", "home", "hub"))
REPORT = HERE / "attacks.json"


def _write(path):
    path.write_text("taken")
    return path.exists()


def _environment():
    for process in pathlib.Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) not in (os.getpid(), 1):
            try:
                if b"SECRET" in (process / "environ").read_bytes():
                    return True
            except OSError:
                continue
    return "nothing was found"


def _daemon():
    mark = str(OUTSIDE / "daemon")
    script = f"import time, pathlib; time.sleep(1); pathlib.Path({mark!r}).write_text(''); time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", script], start_new_session=True, stdout=-3, stderr=-3, stdin=-3)
    return "known later: a file `daemon` appears outside"


def _connected(family, address):
    with socket.socket(family) as one:
        one.settimeout(2)
        one.connect(address)
        return True


def _replace_git():
    place = pathlib.Path(".git")
    if place.is_file():
        text = place.read_text()
        place.unlink()
        place.write_text(text + "\n")
        return True
    place.rename(".git-moved").rename(".git")
    return True


def _signal():
    os.kill(AIMS["pid"], signal.SIGUSR1)
    return True


def _hub():
    ref = HUB / "refs" / "heads" / "taken"
    return _write(ref) and not ref.unlink()


def _persons_git():
    found = subprocess.run(["git", "rev-parse", "--git-common-dir"], capture_output=True, text=True)
    hook = pathlib.Path(found.stdout.strip() or ".git", "hooks", "post-applypatch")
    hook.parent.mkdir(exist_ok=True)
    return _write(hook) and not hook.unlink()


TRIED = {
    "write outside": lambda: _write(OUTSIDE / "absolute"),
    "write through a link": lambda: _write(pathlib.Path("escape/linked")),
    "write at home": lambda: _write(HOME / ".bashrc"),
    "read a secret": lambda: "SECRET" in pathlib.Path("secret.txt").read_text(),
    "read another's environment": _environment,
    "signal another process": _signal,
    "connect by TCP": lambda: _connected(socket.AF_INET, ("127.0.0.1", AIMS["port"])),
    "connect by a socket file": lambda: _connected(socket.AF_UNIX, AIMS["socket"]),
    "replace .git": _replace_git,
    "leave a daemon": _daemon,
    "change the hub": _hub,
    "make a file run by the person's git": _persons_git,
}


def _attempt(attack):
    try:
        return attack()
    except BaseException as refused:
        return f"{type(refused).__name__}: {refused}"


REPORT.write_text(json.dumps({name: _attempt(attack) for name, attack in TRIED.items()}, indent=1))
