"""
A host's bare clone of the hub, which holds all objects that checkouts and compositions on this host need.

It is a cache. Its refs lie below `refs/hub/` (the hub's `refs/heads/main` is `refs/hub/heads/main` here). They are only
hints and protect objects from pruning; only the hub knows where a branch really is.
"""

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import unquote, urlsplit

import structlog

from forgepool.worktrees.errors import InfrastructureError
from forgepool.worktrees.git.beneath import hold_lock
from forgepool.worktrees.git.git import (
    DOUBTED,
    MINIMUM,
    CommitId,
    Git,
    GitFailed,
    git_version,
    is_object_id,
    is_ref,
    network_environment,
    run_outside,
    without_password,
)
from forgepool.worktrees.git.objects import find_object, find_objects
from forgepool.worktrees.hub.hub import is_url
from forgepool.worktrees.hub.local import move_refs
from forgepool.worktrees.hub.push import (
    LOCKED,
    PushAnswer,
    Pushed,
    RefUpdate,
    judge_push,
    push_words,
    remove_stale_locks,
)
from forgepool.worktrees.hub.storage import (
    SHA1,
    SHA256,
    borrow_objects,
    is_damaged,
    is_whole,
    keep_sound,
    pack_loose,
    restore_config,
)

log = structlog.get_logger()
_HEADS = "+refs/heads/*:refs/hub/heads/*"
_RECEIVE_PACK = (
    "--receive-pack=git -c receive.denyCurrentBranch=refuse -c receive.autogc=false -c core.fsync=objects,reference "
    "-c receive.advertisePushOptions=true receive-pack"
)
"""
For a hub on this host: a checked-out branch is never moved, no `gc` outlives our push, and what was pushed survives a
loss of power. Hooks get push options, whatever the hub's settings.
"""
_MANY_PACKS = 40
_LOOKS, _LOOK_S = 5, 0.2
_NO_OPTIONS = "does not support push options"


class MissingCommit(InfrastructureError):
    """The hub has no such commit on the refs that were asked for."""

    def __init__(self, commit: str, hub: str) -> None:
        self.commit = commit
        super().__init__(f"commit {commit} is not in the hub {without_password(hub)}; push it there first")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """A bare clone at `path` of the repository at `hub` (an absolute path or a URL)."""

    path: Path
    hub: str
    credential_helper: str | None = None
    push_option: str | None = field(default=None, repr=False)
    """Passed to the hub's hooks with every push, where the hub accepts such options. A secret."""

    @property
    def git(self) -> Git:
        return Git(git_dir=self.path)

    def has(self, commit: CommitId) -> bool:
        """Is the commit here, with its tree, without asking the hub?"""
        if not is_object_id(commit):
            return False
        # Among objects that were borrowed may be a commit that no branch of the hub needed, and whose tree is gone.
        wanted = (f"{commit}^{{commit}}", f"{commit}^{{tree}}")
        with contextlib.suppress(GitFailed):  # a repository that cannot be read has nothing
            return all(facts is not None for facts in find_objects(self.git, wanted))
        return False

    def missing(self, *commits: CommitId) -> list[CommitId]:
        """Return the commits that are not here, without asking the hub."""
        return [commit for commit in commits if not self.has(commit)]

    def ensure(self, commit: CommitId, *, refs: Sequence[str] = ()) -> None:
        """
        Fetch the commit if it is not here: by the given refs of the hub, else by its branches.

        Raises:
            MissingCommit: it is on none of them.
            GitFailed: the hub could not be asked.
        """
        if self.has(commit):
            return
        for refspecs in ([_tracking(ref) for ref in refs], [_HEADS]):
            if refspecs and self._fetch_for(commit, refspecs):
                return
        if is_object_id(commit) and find_object(self.git, f"{commit}^{{commit}}") is not None:
            # Its tree is gone, and a fetch brings no tree of a commit that is here.
            (self.path / DOUBTED).touch()
        raise MissingCommit(commit, self.hub)

    def fetch(self, *refspecs: str) -> None:
        """Fetch the refspecs, or every branch, with the mirror locked."""
        with hold_lock(self.lock):
            self._fetch(refspecs or (_HEADS,))

    def bring(self, *refs: str) -> None:
        """Fetch the commits of the hub's refs without keeping a ref, also into a person's own clone."""
        quiet = ("--quiet", "--no-tags", "--no-write-fetch-head")
        self.git.run(*self._helper, "fetch", *quiet, "--", self.hub, *refs, env=self._network)

    def hub_refs(self, *patterns: str) -> dict[str, CommitId]:
        """Ask where the hub's refs are now, by name or glob (`refs/forgepool/r1/*`); all without patterns."""
        if (self.path / DOUBTED).exists():
            _mend(self)
        argv = (*self._helper, "ls-remote", "--refs", "--", self.hub, *patterns)
        output = self.git.run(*argv, env=self._network, timeout_s=120).text
        pairs = (line.split("\t", 1) for line in output.split("\n") if line)
        # Git matches patterns at the end of names: `refs/heads/a` is also `refs/heads/refs/heads/a` to it.
        return {
            name: CommitId(value)
            for value, name in pairs
            if not patterns or any(fnmatchcase(name, each) for each in patterns)
        }

    def hub_links(self, *patterns: str) -> frozenset[str]:
        """Ask which of these refs are symbolic. To push to one is to push to the ref that it names."""
        argv = (*self._helper, "ls-remote", "--symref", "--", self.hub, *patterns)
        lines = self.git.run(*argv, env=self._network, timeout_s=120).text.split("\n")
        return frozenset(line.partition("\t")[2] for line in lines if line.startswith("ref: "))

    def push(self, updates: Sequence[RefUpdate], *, near: Sequence[str] = ()) -> PushAnswer:
        """
        Move all the refs at the hub or none, each only from its expected commit. A repeated push changes nothing.

        `near` are refs of the hub on whose commits the new ones are likely built; naming them saves time.

        Raises:
            GitFailed: the hub could not be asked, or the push failed for an unknown reason.
        """
        if self._receiver and self.push_option is None and move_refs(self._local, self.git, updates, near=near):
            return Pushed()
        leases, refspecs = push_words(updates)
        argv = (
            *self._helper,
            "push",
            "--atomic",
            "--porcelain",
            "--no-verify",
            *self._receiver,
            *leases,
            "--",
            self.hub,
            *refspecs,
        )
        with self._option() as option:
            output = self.git.run(*option, *argv, ok=range(-64, 256), env=self._network)
        if option and output.status != 0 and _NO_OPTIONS in output.stderr:
            output = self.git.run(*argv, ok=range(-64, 256), env=self._network)
        if output.status != 0 and LOCKED in output.stderr and self._unlocked(updates):
            return self.push(updates)
        if output.status == 0:
            return Pushed()
        return judge_push(argv, output, updates, self.hub_refs(*(update.ref for update in updates)))

    def pack(self) -> None:
        """
        Pack the loose objects of the mirror, and of a hub on this host, where there are many.

        Nothing is lost by it, also beside others at work. It never fails: it saves only room and time.
        """
        hub = self._local_hub
        with suppress(GitFailed, OSError):
            if hub is not None:
                pack_loose(hub)
            with hold_lock(self.lock):
                pack_loose(self.path, all_objects=True)

    @property
    def lock(self) -> Path:
        return self.path.with_suffix(".lock")

    @property
    def _helper(self) -> tuple[str, ...]:
        helper = self.credential_helper
        return () if helper is None else ("-c", "credential.helper=", "-c", f"credential.helper={helper}")

    def _unlocked(self, updates: Sequence[RefUpdate]) -> bool:
        """Remove locks that were left behind in a hub on this host; return True if there were any."""
        hub = self._local_hub
        return hub is not None and bool(remove_stale_locks(hub, [update.ref for update in updates]))

    def unlock_below(self, prefix: str) -> None:
        """Remove the stale locks of refs below `prefix`, whether or not the refs exist; in a hub on this host alone."""
        hub = self._local_hub
        if hub is None or not (locks := list((hub / prefix).rglob("*.lock"))):
            return
        refs = [str(lock.relative_to(hub).with_suffix("")) for lock in locks]
        # None are removed while a git works in the hub, which seldom takes long.
        for _ in range(_LOOKS):
            if remove_stale_locks(hub, refs):
                return
            time.sleep(_LOOK_S)

    @property
    def _local_hub(self) -> Path | None:
        """The git folder of a hub on this host; None where only git can tell."""
        if not self._receiver:
            return None
        return next((folder for folder in (self._local / ".git", self._local) if (folder / "refs").is_dir()), None)

    @contextmanager
    def _option(self) -> Iterator[tuple[str, ...]]:
        """Pass the push option in a file: every user of the host can read a command line."""
        if self.push_option is None:
            yield ()
            return
        quoted = self.push_option.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        with tempfile.NamedTemporaryFile("w", prefix="forgepool-", suffix=".gitconfig") as file:
            file.write(f'[push]\n\tpushOption = "{quoted}"\n')
            file.flush()
            yield ("-c", f"include.path={file.name}")

    @property
    def _local(self) -> Path:
        return Path(unquote(urlsplit(self.hub).path) if self.hub.startswith("file:") else self.hub)

    @property
    def _receiver(self) -> tuple[str, ...]:
        """
        Options for a hub on this host, which may allow pushes into a checked-out branch; ours must not change a
        person's folder.
        """
        return () if is_url(self.hub) and not self.hub.startswith("file:") else (_RECEIVE_PACK,)

    @property
    def _network(self) -> dict[str, str]:
        return network_environment(with_home=self.credential_helper is not None) if is_url(self.hub) else {}

    def _fetch_for(self, commit: CommitId, refspecs: Sequence[str]) -> bool:
        """Fetch one commit, unless another process fetched it while this one waited for the lock."""
        with hold_lock(self.lock):
            if self.has(commit):
                return True
            try:
                self._fetch(refspecs)
            except GitFailed as failed:
                if "find remote ref" not in failed.stderr:
                    raise
                return False
            return self.has(commit)

    def _fetch(self, refspecs: Sequence[str], *, tidy: bool = True) -> None:
        quiet = ("--quiet", "--no-tags", "--no-write-fetch-head", "--prune")
        self.git.run(*self._helper, "fetch", *quiet, "--", self.hub, *refspecs, env=self._network)
        if tidy and len(list((self.path / "objects" / "pack").glob("*.idx"))) > _MANY_PACKS:
            self.git.run("repack", "-d", "-n", "-q", "--geometric=2")


def open_mirror(
    hub: str, cache: Path, *, credential_helper: str | None = None, push_option: str | None = None
) -> Mirror:
    """
    Return this host's mirror of the hub, made at the first call. Any number of processes may call at once.

    Raises:
        GitFailed: git is missing or too old, or the hub cannot be read.
    """
    hub = hub if is_url(hub) else str(Path(hub).absolute())
    path = cache.absolute() / "mirrors" / f"{_name(hub)}.git"
    mirror = Mirror(path=path, hub=hub, credential_helper=credential_helper, push_option=push_option)
    if not is_whole(mirror.path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock(mirror.lock):
            if not is_whole(mirror.path):
                _make(mirror)
    restore_config(mirror.path)
    if (mirror.path / DOUBTED).exists():
        _mend(mirror)
    return mirror


def _mend(mirror: Mirror) -> None:
    """
    Make a mirror again if objects that git could not read are damaged or missing indeed.

    Raises:
        GitFailed: the hub cannot be read.
    """
    with hold_lock(mirror.lock):
        mark = mirror.path / DOUBTED
        if not mark.exists():
            return
        if is_damaged(mirror.path):
            log.warning(
                "mirror.damaged", mirror=str(mirror.path), follows="it is made again; its sound objects are kept"
            )
            _make(mirror)
        else:
            mark.unlink(missing_ok=True)


def _make(mirror: Mirror) -> None:
    if git_version() < MINIMUM:
        raise GitFailed(("version",), 0, f"git {MINIMUM[0]}.{MINIMUM[1]} or newer is needed")
    parent, name = mirror.path.parent, mirror.path.stem
    for leftover in parent.glob(f"{name}.tmp-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    draft = Path(tempfile.mkdtemp(prefix=f"{name}.tmp-", dir=parent))
    long_ids = any(len(commit) == 64 for commit in _hub_ids(mirror))
    made = Git(git_dir=draft)
    made.run("init", "--quiet", "--bare", "--template=", f"--object-format={'sha256' if long_ids else 'sha1'}")
    for file in ("config", "forgepool"):
        (draft / file).write_bytes(SHA256 if long_ids else SHA1)
    drafted = replace(mirror, path=draft)
    _borrow(drafted)
    drafted._fetch((_HEADS,), tidy=False)
    broken = Path(tempfile.mkdtemp(prefix=f"{name}.tmp-", dir=parent)) / "broken"
    if mirror.path.exists():
        keep_sound(mirror.path, draft)
        if (mirror.path / "worktrees").is_dir():
            (mirror.path / "worktrees").rename(draft / "worktrees")
        mirror.path.rename(broken)
    draft.rename(mirror.path)
    keep_sound(broken, mirror.path)  # Some may have been written meanwhile.
    for leftover in parent.glob(f"{name}.tmp-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _borrow(mirror: Mirror) -> None:
    """Take the objects of a hub on this host as files, and its branches. A fetch brings the rest, or everything."""
    hub = mirror._local_hub
    if hub is None:
        return
    try:
        before = mirror.hub_refs("refs/heads/*").items()
        borrow_objects(hub, mirror.path)
        # A branch that moved meanwhile may need objects that appeared too late, or went away.
        steady = sorted(before & mirror.hub_refs("refs/heads/*").items())
        lines = "".join(f"create refs/hub/{ref.removeprefix('refs/')} {commit}\n" for ref, commit in steady)
        mirror.git.run("update-ref", "--stdin", stdin=lines.encode())
    except (OSError, GitFailed):
        # Some of the objects may be here, and a fetch does without them.
        shutil.rmtree(mirror.path / "objects")
        (mirror.path / "objects").mkdir()


def _hub_ids(mirror: Mirror) -> list[str]:
    """Return ids from the hub; their length tells which object format the mirror needs."""
    argv = (*mirror._helper, "ls-remote", "--", mirror.hub, "HEAD")
    output = run_outside(*argv, env=mirror._network, timeout_s=120).text
    return [line.partition("\t")[0] for line in output.splitlines()]


def _tracking(ref: str) -> str:
    """Return the refspec that brings a hub's ref to its place below `refs/hub/`."""
    if not is_ref(ref):
        raise ValueError(f"{ref!r} is not a full ref name; it would be refs/heads/NAME or the like")
    return f"+{ref}:refs/hub/{ref.removeprefix('refs/')}"


def _name(hub: str) -> str:
    """Return a readable name with a digest; the same for a hub with any password in its URL."""
    plain = without_password(hub)
    words = [word for word in re.split(r"[/:]", plain.removesuffix("/")) if word not in ("", ".git")]
    slug = re.sub(r"[^A-Za-z0-9-]+", "-", (words or ["hub"])[-1].removesuffix(".git")).strip("-")[:40]
    return f"{slug or 'hub'}-{hashlib.sha256(os.fsencode(plain)).hexdigest()[:12]}"
