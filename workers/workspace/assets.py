"""
Assets: files beside a plan that its tasks can read, kept in the hub as one commit.

They are no part of the worktree, so no candidate holds them. The plan has their digests; the bytes are kept in the
run's folder and below the run's refs, so that every host, and a resumed run, has the same ones.
"""

import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from forgepool.workers.sandbox.scratch import make_scratch
from forgepool.workers.schema.orders import Asset, Assets
from forgepool.workers.workspace.refs import assets_ref
from forgepool.worktrees.commits.candidate import write_commit
from forgepool.worktrees.git.git import CommitId, TreeId
from forgepool.worktrees.git.objects import read_blob
from forgepool.worktrees.hub.mirror import Mirror
from forgepool.worktrees.hub.push import Pushed, RefUpdate, Stale

VARIABLE = "FORGEPOOL_ASSETS"
MOST_BYTES = 50_000_000
MOST_FILES = 2_000


class AssetsChanged(Exception):
    """A file has changed since the plan was read, or cannot be kept; one sentence."""


def assets_in(folder: Path, path: str) -> Iterator[Asset]:
    """
    Return the file at the path, or all files below the folder at it.

    Raises:
        OSError: one cannot be read.
        ValueError: the file is missing, a link, behind a link, or outside; the message follows the path.
    """
    place = folder / path
    if path.startswith("/") or ".." in Path(path).parts:
        raise ValueError("must lie below the plan's folder")
    if _leads_through_link(folder, path):
        raise ValueError("must lie below the plan's folder, and not behind a link")
    if not place.exists():
        raise ValueError(f"is not in {folder.absolute()}")
    below = (file for file in place.rglob("*") if file.is_symlink() or not file.is_dir())
    for file in [place] if place.is_file() else sorted(below):
        if file.is_symlink() or not file.is_file():
            raise ValueError(f"holds {file.relative_to(folder)}, which is no regular file")
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        executable = bool(file.stat().st_mode & 0o100)
        yield Asset(path=file.relative_to(folder).as_posix(), sha256=digest, executable=executable)


def copy_assets(assets: Sequence[Asset], source: Path, kept: Path) -> None:
    """
    Copy the files into a folder, each under its SHA-256. Files of the run's earlier plans stay there.

    Raises:
        AssetsChanged: a file differs from the plan's digest.
    """
    for asset in assets:
        if _leads_through_link(source, asset.path):
            raise AssetsChanged(f"asset {asset.path} lies behind a link since the plan was read; start the run again")
        data = _read(asset, source / asset.path)
        kept.mkdir(parents=True, exist_ok=True)
        (kept / asset.sha256).write_bytes(data)


def publish_assets(assets: Sequence[Asset], kept: Path, mirror: Mirror, run: str) -> str:
    """
    Put the copied files into the hub as a commit, in place of an earlier plan's, and return it; empty without files.

    Doing it again changes nothing.

    Raises:
        AssetsChanged: a file differs from the plan's digest, or the hub refuses the commit.
        GitFailed: the hub could not be reached.
    """
    if not assets:
        return ""
    commit = _commit_of({asset: _read(asset, kept / asset.sha256) for asset in assets}, mirror)
    ref = assets_ref(run)
    answer = mirror.push((RefUpdate(ref=ref, new=commit, expected=None),))
    if isinstance(answer, Stale) and answer.actual not in (None, commit):
        answer = mirror.push((RefUpdate(ref=ref, new=commit, expected=answer.actual),))
    if isinstance(answer, Pushed) or (isinstance(answer, Stale) and answer.actual == commit):
        return commit
    raise AssetsChanged(f"the plan's assets cannot be kept in the hub: {answer}")


def fetch_assets(kept: Path, mirror: Mirror, run: str) -> None:
    """
    Bring the run's files back from the hub into a folder, each under its SHA-256.

    Raises:
        MissingCommit, GitFailed: the hub could not be reached.
    """
    ref = assets_ref(run)
    at = mirror.hub_refs(ref).get(ref)
    if at is None:
        return
    mirror.ensure(at, refs=(ref,))
    kept.mkdir(parents=True, exist_ok=True)
    for record in mirror.git.run("ls-tree", "-r", "-z", "--full-tree", at).fields:
        data = read_blob(mirror.git, record.partition("\t")[0].split(" ")[2])
        (kept / hashlib.sha256(data).hexdigest()).write_bytes(data)


@contextmanager
def lay_out(mirror: Mirror, run: str, assets: Assets | None) -> Iterator[Path | None]:
    """
    Yield a folder with the files, read-only and removed after the block; None without assets.

    Raises:
        MissingCommit, GitFailed: the hub does not have them, or could not be reached.
    """
    if assets is None:
        yield None
        return
    commit = CommitId(assets.commit)
    mirror.ensure(commit, refs=(assets_ref(run),))
    with make_scratch() as folder:
        folder.chmod(0o755)
        for record in mirror.git.run("ls-tree", "-r", "-z", "--full-tree", commit).fields:
            facts, _, path = record.partition("\t")
            mode, _, blob = facts.split(" ")
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(read_blob(mirror.git, blob))
            place.chmod(0o555 if mode == "100755" else 0o444)
        yield folder


def _leads_through_link(folder: Path, path: str) -> bool:
    """Return whether the path, or a folder on the way to it, is a link; the plan's own folder may be reached by one."""
    place = Path(path)
    return any((folder / each).is_symlink() for each in (place, *place.parents) if each.parts)


def _read(asset: Asset, place: Path) -> bytes:
    try:
        data = place.read_bytes()
    except OSError as trouble:
        raise AssetsChanged(f"asset {asset.path} cannot be read: {trouble.strerror}") from trouble
    if hashlib.sha256(data).hexdigest() != asset.sha256:
        raise AssetsChanged(f"asset {asset.path} at {place} has changed since the plan was read; start the run again")
    return data


def _commit_of(files: Mapping[Asset, bytes], mirror: Mirror) -> CommitId:
    """Return a commit that depends on the files alone."""
    git = mirror.git
    lines = b""
    for asset, data in files.items():
        blob = git.text("hash-object", "-w", "--no-filters", "--stdin", stdin=data)
        mode = "100755" if asset.executable else "100644"
        lines += f"{mode} {blob}\t{asset.path}\0".encode()
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        git.run("update-index", "-z", "--index-info", stdin=lines, env=index)
        tree = TreeId(git.text("write-tree", env=index))
    return write_commit(git, tree=tree, parents=(), message="Assets of a plan\n", at=0)
