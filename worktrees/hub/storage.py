"""
The files of repositories on this host: a mirror's configuration, objects borrowed from a hub, and loose ones packed.

A mirror has links to the hub's files, and not the hub's path in `objects/info/alternates`. Git never writes into such a
file, and a `gc` in the hub removes only the hub's name of it. So the mirror keeps what only the mirror still needs.
"""

import errno
import hashlib
import os
import re
import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from forgepool.worktrees.git.git import Git, GitFailed, run_outside

_MOST_LOOSE = 500
"""Loose objects that a repository may have before they are packed."""
_MOST_AT_ONCE = 50_000
"""Objects of one new pack; the rest waits for the next time."""
_MOST_LISTINGS = 20
_PACKING_S = 120
_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)
_INCOMPLETE = ("shallow", "info/grafts", "objects/info/alternates", "objects/info/http-alternates")
_PRIVATE = ("index",)
"""A person's unfinished work. A fetch leaves it where it is, so that no agent can read it in the mirror."""
_LOOSE = re.compile(r"[0-9a-f]{38}(?:[0-9a-f]{24})?")
_OBJECT_FILE = re.compile(rf"{_LOOSE.pattern}|pack-.*\.(?:pack|idx)")
_SUFFIXES = (".pack", ".rev", ".idx")
"""Files of a pack. Git sees a pack once its `.idx` is there, so that comes last."""


_CONFIG = """\
[core]
\trepositoryformatversion = {version}
\tfilemode = true
\tbare = true
[fetch]
\tunpackLimit = 1
{extensions}"""
SHA1 = _CONFIG.format(version=0, extensions="").encode()
SHA256 = _CONFIG.format(version=1, extensions="[extensions]\n\tobjectFormat = sha256\n").encode()
_STRAYS = (
    *("info/attributes", "info/exclude", "info/sparse-checkout", "shallow", "config.worktree"),
    *("commondir", "objects/info/alternates", "objects/info/http-alternates"),
)
"""Files that a mirror never has, and that would make git read it as another repository."""
# Unpack limit 1: a fetch always arrives as one pack, which appears whole or not at all. Loose objects would
# appear one by one, commits first, and a fetch killed half way would leave commits without their trees.


def is_whole(mirror: Path) -> bool:
    """Is the mirror complete? It appears by one rename, but may be damaged later."""
    try:
        known = (mirror / "forgepool").read_bytes() in (SHA1, SHA256)
    except OSError:
        return False
    return known and (mirror / "HEAD").is_file() and (mirror / "refs").is_dir() and (mirror / "objects").is_dir()


def restore_config(mirror: Path) -> None:
    """
    Restore the mirror's configuration. An agent's `git config` in a checkout writes to it.

    Filters, drivers and aliases set there are the one kind of configuration that a call cannot switch off.
    """
    ours = (mirror / "forgepool").read_bytes()
    if ours not in (SHA1, SHA256):
        raise GitFailed(("config",), 0, f"the mirror {mirror} was tampered with; remove it")
    config = mirror / "config"
    if config.is_symlink() or not config.is_file() or config.read_bytes() != ours:
        _write_whole(config, ours)
    for stray in _STRAYS:
        (mirror / stray).unlink(missing_ok=True)


def _write_whole(path: Path, content: bytes) -> None:
    """Write the file atomically: whenever the process dies, it has the content or is untouched."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(content)
    draft.replace(path)


def is_damaged(mirror: Path) -> bool:
    """
    Look through a mirror: is an object file empty, or one missing that a ref needs?

    Drafts of objects may be empty, and an agent may write anything into the HEAD of its worktree.
    """
    if any(_OBJECT_FILE.fullmatch(file.name) and _is_empty(file) for file in (mirror / "objects").glob("*/*")):
        return True
    found = Git(git_dir=mirror).run("rev-list", "--objects", "--quiet", "--glob=refs/*", ok=range(-64, 256))
    return found.status != 0


def _is_empty(file: Path) -> bool:
    try:
        return file.stat().st_size == 0
    except FileNotFoundError:  # It has been packed, or its pack has been joined with others.
        return False


def keep_sound(broken: Path, mirror: Path) -> None:
    """
    Link the sound objects of a broken mirror into the one made in its place: work under way needs them.

    What cannot be read or linked is left out.
    """
    theirs, ours = broken / "objects", mirror / "objects"
    for name in _list_loose(theirs):
        with suppress(OSError):
            if not _place(ours, name).exists() and _is_sound(_place(theirs, name), name):
                _link_loose([name], theirs, ours)
    kind = "sha256" if (mirror / "forgepool").read_bytes() == SHA256 else "sha1"
    for index in (theirs / "pack").glob("pack-*.idx"):
        with suppress(GitFailed, OSError):
            if not (ours / "pack" / index.name).exists():
                run_outside("verify-pack", f"--object-format={kind}", str(index))
                _take(index.stem, theirs / "pack", ours / "pack", otherwise=_copy)


def _is_sound(file: Path, name: str) -> bool:
    """Is it the file of the object of that name, whole and with nothing behind it?"""
    digest, stream = hashlib.new("sha1" if len(name) == 40 else "sha256", usedforsecurity=False), zlib.decompressobj()
    with suppress(zlib.error), file.open("rb") as packed:
        while piece := packed.read(1 << 16):
            digest.update(stream.decompress(piece))
        return stream.eof and not stream.unused_data and digest.hexdigest() == name
    return False


def _place(objects: Path, name: str) -> Path:
    return objects / name[:2] / name[2:]


class NotBorrowed(OSError):
    """The objects cannot be taken as files: they are elsewhere, or the repository changes too fast."""


def borrow_objects(source: Path, mirror: Path) -> None:
    """
    Give a new mirror the object files of a repository: links to them, or copies on another disk.

    Whatever a ref needs is there afterwards, if the ref points to the same object before and after the call. Git moves
    such objects only from loose files to packs and from packs to packs; so packs are taken last, until none is new.

    Raises:
        NotBorrowed: the repository has objects elsewhere, or a person's work, or changes too fast.
        OSError: a file cannot be read or written.
        GitFailed: loose objects cannot be copied.
    """
    theirs, ours = source / "objects", mirror / "objects"
    partial = any((theirs / "pack").glob("*.promisor"))
    if theirs.is_symlink() or partial or any((source / name).exists() for name in (*_INCOMPLETE, *_PRIVATE)):
        raise NotBorrowed
    loose = _list_loose(theirs)
    try:
        _link_loose(loose, theirs, ours)
    except OSError as trouble:
        if trouble.errno not in _NO_LINKS:
            raise
        # One pack is copied sooner than many files, and git makes sure that it is on the disk.
        _pack(Git(git_dir=mirror), loose, {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(theirs)})
    before: set[str] | None = None
    for _ in range(_MOST_LISTINGS):
        found = {file.stem for file in (theirs / "pack").glob("*.idx")}
        if found == before:
            return
        try:
            for name in found:
                _take(name, theirs / "pack", ours / "pack", otherwise=_copy)
            before = found
        except FileNotFoundError:  # A `gc` has put it into another pack, which the next listing shows.
            before = None
    raise NotBorrowed


def pack_loose(git_dir: Path, *, all_objects: bool = False) -> None:
    """
    Pack the loose objects of a repository if there are many. `all_objects` packs them without asking who needs them.

    A loose file is removed only if a pack has its object. Objects that no ref needs go into a cruft pack, which keeps
    the time of each. A person's own `gc` removes them by that time, or before git 2.41 by that of the youngest. No
    setting is changed. Nothing is done while the repository's own `gc` runs, or where the repository belongs to another
    user or has objects elsewhere.

    Raises:
        OSError: the repository cannot be read.
        GitFailed: an object is damaged, or a pack cannot be written in time.
    """
    objects, git = git_dir / "objects", Git(git_dir=git_dir)
    if len(_list_loose(objects)) <= _MOST_LOOSE or (git_dir / "gc.pid").exists():
        return
    if objects.stat().st_uid != os.geteuid() or any((git_dir / name).exists() for name in _INCOMPLETE):
        return
    git.run("prune-packed", "-q")
    if len(loose := _list_loose(objects)) <= _MOST_LOOSE:
        return
    if all_objects:
        _pack(git, loose[:_MOST_AT_ONCE])
        git.run("prune-packed", "-q")
    else:
        git.run("repack", "-d", "-l", "-q", timeout_s=_PACKING_S)
        if len(loose := _list_loose(objects)) > _MOST_LOOSE:
            _pack_unneeded(git, objects, loose)


def _pack_unneeded(git: Git, objects: Path, loose: Sequence[str]) -> None:
    """Write all objects that are in no pack into a cruft pack, and remove their files."""
    latest = max(Path(objects, name[:2], name[2:]).stat().st_mtime for name in loose)
    kept = "".join(f"{pack.name}\n" for pack in objects.glob("pack/*.pack")).encode()
    options = ("--cruft", "--cruft-expiration=never", "-q", f"{objects}/pack/pack")
    written = git.run("pack-objects", *options, stdin=kept, timeout_s=_PACKING_S).text
    # Before 2.41, a `gc` goes by the time of the pack.
    os.utime(f"{objects}/pack/pack-{written}.pack", (latest, latest))
    git.run("prune-packed", "-q")


def _list_loose(objects: Path) -> list[str]:
    found = []
    for folder in objects.glob("[0-9a-f][0-9a-f]"):
        with os.scandir(folder) as entries:
            found += [folder.name + entry.name for entry in entries if _LOOSE.fullmatch(entry.name) and entry.is_file()]
    return found


def _link_loose(names: Sequence[str], theirs: Path, ours: Path) -> None:
    for start in {name[:2] for name in names}:
        (ours / start).mkdir(exist_ok=True)
    for name in names:
        place = f"{name[:2]}/{name[2:]}"
        with suppress(FileNotFoundError):  # It is in a pack now, or no ref needs it.
            os.link(f"{theirs}/{place}", f"{ours}/{place}", follow_symlinks=False)


def _take(pack: str, theirs: Path, ours: Path, *, otherwise: Callable[[Path, Path], None] | None = None) -> None:
    """Link the files of a pack that are not here yet, or do with them what `otherwise` does."""
    for suffix in _SUFFIXES:
        source, destination = theirs / f"{pack}{suffix}", ours / f"{pack}{suffix}"
        if destination.exists() or (suffix == ".rev" and not source.exists()):
            continue
        if source.is_symlink():
            raise NotBorrowed
        try:
            os.link(source, destination)
        except OSError as trouble:
            if otherwise is None or trouble.errno not in _NO_LINKS:
                raise
            otherwise(source, destination)


def _copy(source: Path, destination: Path) -> None:
    """Copy a file that becomes visible later, and make sure that it is on the disk by then."""
    shutil.copyfile(source, destination)
    with destination.open("rb") as copy:
        os.fsync(copy.fileno())


def _pack(git: Git, names: Sequence[str], env: Mapping[str, str] | None = None) -> None:
    """Write the objects into a new pack of the repository."""
    if names:
        wanted = "".join(f"{name}\n" for name in names).encode()
        place = str(git.git_dir / "objects" / "pack" / "pack")
        git.run("pack-objects", "-q", place, stdin=wanted, env=env, timeout_s=_PACKING_S)
