"""
The surroundings of a sandbox, made for one run of the attempts and inspected after it.

All of it is in one folder, except what must be where others look: a file in /tmp and one in /dev/shm.
"""

import contextlib
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from attempt import Stage
from listeners import Listeners
from shared_memory import handle_of, key, queue, remove_segment, segment
from table import ATTEMPTS

from forgepool.worktrees.checkouts.checkout import Checkout, lease_checkout
from forgepool.worktrees.git.git import CommitId
from forgepool.worktrees.hub.mirror import Mirror, open_mirror

HERE = Path(__file__).resolve().parent
INHERITED = ("write_to_an_inherited_descriptor", "open_an_inherited_folder")
_SIGNATURE = ("st_ino", "st_mode", "st_uid", "st_size", "st_mtime_ns", "st_nlink")


@dataclass(slots=True, kw_only=True)
class World:
    """Everything that the checks of attempts inspect."""

    folder: Path
    checkout: Checkout
    other: Checkout
    hub: Path
    tip: str
    listeners: Listeners
    stage: Stage
    seed: str
    canaries: dict[str, object] = field(default_factory=dict)

    @property
    def outside(self) -> Path:
        return self.folder / "outside"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def tmp(self) -> Path:
        return self.folder / "private" / "tmp"

    @property
    def own_home(self) -> Path:
        return self.folder / "private" / "home"

    @property
    def other_tmp(self) -> Path:
        return self.folder / "other-private" / "tmp"

    @property
    def mirror(self) -> Path:
        return self.checkout.mirror.path

    @property
    def worktree(self) -> Path:
        return self.checkout.path

    @property
    def admin(self) -> Path:
        return self.checkout.admin

    @property
    def other_worktree(self) -> Path:
        return self.other.path

    @property
    def other_admin(self) -> Path:
        return self.other.admin

    @property
    def ports(self) -> dict[str, int]:
        return self.listeners.ports

    def secret(self, where: str) -> str:
        return secret(self.seed, where)

    def heard(self) -> str:
        return self.listeners.heard()

    def is_touched(self, name: str) -> bool:
        return _signature(self.outside / "canaries" / name) != self.canaries[name]

    def is_alive(self, name: str) -> bool:
        state = Path(f"/proc/{self.stage.victims[name]}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX"

    def nice_of(self, name: str) -> int:
        return os.getpriority(os.PRIO_PROCESS, self.stage.victims[name])

    def policy_of(self, name: str) -> int:
        return os.sched_getscheduler(self.stage.victims[name])

    def processors_of(self, name: str) -> set[int]:
        return os.sched_getaffinity(self.stage.victims[name])

    def limit_of(self, name: str) -> int:
        return resource.prlimit(self.stage.victims[name], resource.RLIMIT_NOFILE)[0]

    def stat_of_harness(self) -> list[str]:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        return [str(os.getpid()), fields[19]]

    def scratch_of_witness(self) -> str:
        with open(f"/proc/{self.stage.witness}/mem", "rb", buffering=0) as memory:  # noqa: PTH123 - at an address
            memory.seek(self.stage.witness_address + 128)
            return memory.read(16).rstrip(b"\0").decode()

    def found_in(self, folder: str, name: str) -> bool:
        """Return whether the file was left there, and remove it."""
        left = Path(folder, f"{self.stage.shared}.{name}")
        found = left.exists()
        left.unlink(missing_ok=True)
        return found

    def segment_of(self, said: object) -> bool:
        return isinstance(said, int) and remove_segment(said)

    def ref(self, name: str) -> str | None:
        return _ref(self.mirror, name)

    def hub_ref(self, name: str) -> str | None:
        return _ref(self.hub, name)


def secret(seed: str, where: str) -> str:
    """Return a text that only a process that has read it there can know."""
    return f"{where.replace(' ', '-')}-{seed}"


def _signature(path: Path) -> object:
    try:
        found = path.lstat()
        attributes = [(name, os.getxattr(path, name)) for name in os.listxattr(path)]
    except FileNotFoundError:
        return None
    return [getattr(found, name) for name in _SIGNATURE], attributes, path.read_bytes()


def _ref(repository: Path, name: str) -> str | None:
    done = subprocess.run(
        ("git", f"--git-dir={repository}", "rev-parse", "-q", "--verify", name), capture_output=True, text=True
    )
    return done.stdout.strip() or None


@contextlib.contextmanager
def world(folder: Path, seed: str) -> Iterator[World]:
    """Make a world in an empty folder; its secrets depend on the seed."""
    shared = f"forgepool-escape-{seed[:8]}"
    _lay_out(folder, seed)
    with contextlib.ExitStack() as stack:
        mirror, tip = _repositories(folder)
        checkout = stack.enter_context(lease_checkout(mirror, CommitId(tip), folder / "checkouts"))
        other = stack.enter_context(lease_checkout(mirror, CommitId(tip), folder / "checkouts"))
        (other.path / "secret").write_text(secret(seed, "worktree"))
        listeners = Listeners(folder / "home", shared, secret(seed, "socket").encode())
        for name in ("type_into_a_terminal", "type_into_a_terminal_by_a_longer_number"):
            listeners.terminal(name)
        stack.enter_context(listeners)
        for place, where in ((Path("/tmp", shared), "host tmp"), (Path("/dev/shm", shared), "shared")):
            place.write_text(secret(seed, where))
            stack.callback(place.unlink)
        stack.enter_context(queue(shared, secret(seed, "queue")))
        canaries = {name: folder / "outside" / "canaries" / name for name in ATTEMPTS}
        for path in canaries.values():
            path.write_text("as it was")
        (canaries["open_by_handle"]).write_text(secret(seed, "handle"))
        witness, address, file = stack.enter_context(_witness(seed, canaries))
        stage = Stage(
            name="",
            folder=str(folder),
            worktree=str(checkout.path),
            outside=str(folder / "outside"),
            home=str(folder / "home"),
            mirror=str(mirror.path),
            admin=str(checkout.admin),
            hub=str(folder / "hub.git"),
            other_worktree=str(other.path),
            other_admin=str(other.admin),
            other_tmp=str(folder / "other-private" / "tmp"),
            harness=os.getpid(),
            witness=witness,
            witness_address=address,
            witness_file=file,
            victims={name: stack.enter_context(_victim()) for name in ATTEMPTS if _harms(name)},
            canary_descriptors=_descriptors(canaries, witness),
            ports=listeners.ports,
            sockets=listeners.sockets,
            terminals=listeners.terminals,
            segment=stack.enter_context(segment(secret(seed, "segment"))),
            shared=shared,
            key=stack.enter_context(key(shared, secret(seed, "key"))),
            handle=handle_of(canaries["open_by_handle"]),
        )
        yield World(
            folder=folder,
            checkout=checkout,
            other=other,
            hub=folder / "hub.git",
            tip=tip,
            listeners=listeners,
            stage=stage,
            seed=seed,
            canaries={name: _signature(path) for name, path in canaries.items()},
        )


def _lay_out(folder: Path, seed: str) -> None:
    for name in ("outside/canaries", "home/.ssh", "state/runs/r1", "private/tmp", "private/home", "other-private/tmp"):
        (folder / name).mkdir(parents=True)
    for name in ("", "outside", "outside/canaries", "private"):
        (folder / name).chmod(0o755)
    (folder / "home" / ".ssh" / "id_rsa").write_text(secret(seed, "file"))
    (folder / "home" / secret(seed, "name")).touch()
    (folder / "state" / "runs" / "r1" / "journal.db").write_text(secret(seed, "journal"))
    (folder / "other-private" / "tmp" / "secret").write_text(secret(seed, "tmp"))


def _repositories(folder: Path) -> tuple[Mirror, str]:
    def git(*argv: str) -> str:
        return subprocess.run(("git", *argv), cwd=folder, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "-q", "--bare", "-b", "main", "hub.git")
    git("init", "-q", "-b", "main", "person")
    for number in range(2):
        (folder / "person" / "file").write_text(f"{number}\n")
        git("-C", "person", "add", "-A")
        git("-C", "person", "commit", "-q", "-m", "one more")
    git("-C", "person", "push", "-q", "../hub.git", "main")
    mirror = open_mirror(str(folder / "hub.git"), folder / "cache")
    tip = git("-C", "person", "rev-parse", "HEAD")
    mirror.ensure(CommitId(tip))
    git(f"--git-dir={mirror.path}", "update-ref", "refs/heads/other", tip)
    return mirror, tip


def _harms(name: str) -> bool:
    return name.split("_")[0] in ("kill", "limit", "slow", "let", "pin")


@contextlib.contextmanager
def _victim() -> Iterator[int]:
    with subprocess.Popen(("sleep", "300"), start_new_session=True) as victim:
        try:
            yield victim.pid
        finally:
            victim.kill()


_HELD_BY_WITNESS = 50


@contextlib.contextmanager
def _witness(seed: str, canaries: dict[str, Path]) -> Iterator[tuple[int, int, int]]:
    canary = os.open(canaries["write_by_a_descriptor_of_another"], os.O_WRONLY | os.O_APPEND)
    os.dup2(canary, _HELD_BY_WITNESS, inheritable=True)
    witness = subprocess.Popen(
        (sys.executable, "-I", "-S", str(HERE / "witness.py"), secret(seed, "argument")),
        env={"FORGEPOOL_WITNESS": secret(seed, "witness")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(_HELD_BY_WITNESS,),
    )
    os.close(canary)
    os.close(_HELD_BY_WITNESS)
    with witness:
        assert witness.stdin is not None
        assert witness.stdout is not None
        witness.stdin.write(f"{secret(seed, 'memory')}\n{secret(seed, 'unnamed')}\n".encode())
        witness.stdin.flush()
        address, file = map(int, witness.stdout.readline().split())
        try:
            yield witness.pid, address, file
        finally:
            witness.kill()


def _descriptors(canaries: dict[str, Path], witness: int) -> dict[str, int]:
    """Open two descriptors of this process, which a child may inherit."""
    file = os.open(canaries[INHERITED[0]], os.O_WRONLY | os.O_APPEND)
    folder = os.open(canaries[INHERITED[1]].parent, os.O_RDONLY)
    for each in (file, folder):
        os.set_inheritable(each, True)
    return {
        INHERITED[0]: file,
        INHERITED[1]: folder,
        "write_by_a_descriptor_of_another": _HELD_BY_WITNESS,
    }
