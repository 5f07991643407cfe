"""
Files beside a plan that its tasks are given: kept in the hub as one commit, laid out read-only for each order.

They are no part of the work tree, so no candidate holds them. Their digests stand in the plan; the bytes are kept in
the run's folder and below the run's refs, so that every host, and a run that is resumed, has the same ones.
"""

import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from forgepool.workers.sandbox.scratch import make_scratch
from forgepool.workers.schema.orders import Assets, Message
from forgepool.workers.workspace.refs import assets_ref
from forgepool.worktrees.commits.candidate import write_commit
from forgepool.worktrees.git.git import CommitId, TreeId
from forgepool.worktrees.hub.mirror import Mirror
from forgepool.worktrees.hub.push import Pushed, RefUpdate, Stale

VARIABLE = "FORGEPOOL_ASSETS"
MOST_BYTES = 50_000_000
MOST_FILES = 2_000


class Asset(Message):
    """One file, by its path below the plan file's folder."""

    path: str
    sha256: str
    executable: bool = False


class AssetsChanged(Exception):
    """A file is no longer what the plan was read with, or cannot be kept; one sentence."""


def assets_in(folder: Path, path: str) -> Iterator[Asset]:
    """
    Return the file at the path, or all files below the folder at it.

    Raises:
        OSError: one cannot be read.
        ValueError: there is no such file, or it is a link, lies behind one, or lies outside; to be read after the path.
    """
    place = folder / path
    if path.startswith("/") or ".." in Path(path).parts:
        raise ValueError("must lie below the plan's folder")
    if _leads_through_link(folder, path):
        raise ValueError("must lie below the plan's folder, and not behind a link")
    if not place.exists():
        raise ValueError(f"is not in {folder.absolute()}")
    found = (
        [place]
        if place.is_file()
        else sorted(each for each in place.rglob("*") if each.is_symlink() or not each.is_dir())
    )
    for each in found:
        if each.is_symlink() or not each.is_file():
            raise ValueError(f"holds {each.relative_to(folder)}, which is no regular file")
        digest = hashlib.sha256(each.read_bytes()).hexdigest()
        executable = bool(each.stat().st_mode & 0o100)
        yield Asset(path=each.relative_to(folder).as_posix(), sha256=digest, executable=executable)


def copy_assets(assets: Sequence[Asset], source: Path, kept: Path) -> None:
    """
    Copy the files into a folder, each under its SHA-256: what an earlier plan of the run had stays there.

    Raises:
        AssetsChanged: a file is not as the plan has it.
    """
    for asset in assets:
        if _leads_through_link(source, asset.path):
            raise AssetsChanged(f"asset {asset.path} lies behind a link since the plan was read; start the run again")
        data = _read(asset, source / asset.path)
        kept.mkdir(parents=True, exist_ok=True)
        (kept / asset.sha256).write_bytes(data)


def publish_assets(assets: Sequence[Asset], kept: Path, mirror: Mirror, run: str) -> str:
    """
    Return the commit of the files that were copied, kept in the hub in place of an earlier plan's; empty if there are
    none. Doing it again changes nothing.

    Raises:
        AssetsChanged: a file is not as the plan has it, or the hub does not take the commit.
        GitFailed: the hub could not be asked.
    """
    if not assets:
        return ""
    commit = _commit_of({asset: _read(asset, kept / asset.sha256) for asset in assets}, mirror)
    ref = assets_ref(run)
    said = mirror.push((RefUpdate(ref=ref, new=commit, expected=None),))
    if isinstance(said, Stale) and said.actual not in (None, commit):
        said = mirror.push((RefUpdate(ref=ref, new=commit, expected=said.actual),))
    if isinstance(said, Pushed) or (isinstance(said, Stale) and said.actual == commit):
        return commit
    raise AssetsChanged(f"the plan's assets cannot be kept in the hub: {said}")


@contextmanager
def lay_out(mirror: Mirror, run: str, assets: Assets | None) -> Iterator[Path | None]:
    """
    A folder with the files, gone with the block; None where there are none.

    Raises:
        MissingCommit, GitFailed: the hub does not have them, or could not be asked.
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
            place.write_bytes(mirror.git.run("cat-file", "blob", blob).stdout)
            place.chmod(0o555 if mode == "100755" else 0o444)
        yield folder


def _leads_through_link(folder: Path, path: str) -> bool:
    """Tell whether the path, or a folder on the way to it, is a link; the plan's own folder may be reached by one."""
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
