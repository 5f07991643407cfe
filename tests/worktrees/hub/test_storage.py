"""
A mirror shares the object files of a hub on the same disk, keeps them whatever happens there, and packs loose objects.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from repositories import Hub, git

from forgepool.worktrees.checkouts.checkout import lease_checkout
from forgepool.worktrees.commits.candidate import commit_candidate
from forgepool.worktrees.commits.compose import tree_of
from forgepool.worktrees.git.git import CommitId, GitFailed
from forgepool.worktrees.git.objects import find_object, read_blob
from forgepool.worktrees.hub.mirror import Mirror, open_mirror
from forgepool.worktrees.hub.push import Pushed, RefUpdate
from forgepool.worktrees.hub.storage import is_damaged

MANY = 510


def object_files(repository: Path) -> list[Path]:
    return [path for path in (repository / "objects").rglob("*") if path.is_file() and path.parent.name != "info"]


def loose(repository: Path) -> int:
    return len(list((repository / "objects").glob("??/*")))


def is_linked(mirror: Mirror) -> bool:
    """Return whether every object file of the mirror is also a file of another repository."""
    return all(path.stat().st_nlink > 1 for path in object_files(mirror.path))


def has_links(mirror: Mirror) -> bool:
    return any(path.stat().st_nlink > 1 for path in object_files(mirror.path))


def read_all(mirror: Mirror, *commits: str) -> None:
    """Fail unless every object of the branches and of the commits is present and intact."""
    git(mirror.path, "fsck", "--strict", "--no-dangling", *(commits or ("refs/hub/heads/main",)))
    git(mirror.path, "rev-list", "--objects", "--all", *commits)


def scatter(repository: Path, count: int = MANY) -> list[str]:
    """Write loose objects that no ref needs, and return their ids."""
    names = []
    for number in range(count):
        text = f"{number} of {count}\n".encode()
        blob = b"blob %d\0" % len(text) + text
        name = hashlib.sha1(blob).hexdigest()
        path = repository / "objects" / name[:2] / name[2:]
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(zlib.compress(blob))
        names.append(name)
    return names


@contextmanager
def meanwhile(work: Callable[[int], object]) -> Iterator[None]:
    """Repeat the work on another thread during the block."""
    done, troubles = threading.Event(), list[BaseException]()

    def go() -> None:
        try:
            for number in range(10_000):
                if done.is_set():
                    return
                work(number)
        except BaseException as trouble:
            troubles.append(trouble)

    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    assert not troubles


@pytest.mark.parametrize("packed", [True, False])
def test_a_mirror_links_the_files_of_a_hub_on_its_disk(hub: Hub, tmp_path: Path, packed: bool) -> None:
    if packed:
        git(hub.path, "gc", "-q")
    mirror = open_mirror(str(hub.path), tmp_path / "cache")
    assert len(object_files(mirror.path)) >= 2
    assert is_linked(mirror)
    read_all(mirror, hub.tip())


@pytest.mark.parametrize("packed", [True, False])
def test_a_gc_in_the_hub_takes_nothing_from_the_mirror(hub: Hub, tmp_path: Path, packed: bool) -> None:
    """With `objects/info/alternates`, deleting a branch in the hub would lose the base of unlanded work."""
    base = hub.commit({"src/a.py": "a = 2\n"}, branch="topic")
    if packed:
        git(hub.path, "gc", "-q")
    mirror = open_mirror(str(hub.path), tmp_path / "cache")
    work = commit_candidate(mirror.git, base=base, tree=tree_of(mirror.git, base), message="work", at=1)
    git(hub.path, "update-ref", "-d", "refs/heads/topic")
    git(hub.path, "gc", "-q", "--prune=now")
    git(hub.path, "prune", "--expire=now")
    assert subprocess.run(["git", "-C", str(hub.path), "cat-file", "-e", base], check=False).returncode != 0
    read_all(mirror, work)


def _alternates(hub: Hub, place: Path) -> Path:
    git(place, "clone", "-q", "--bare", "--shared", str(hub.path), "strange.git")
    return place / "strange.git"


def _partial(hub: Hub, place: Path) -> Path:
    git(hub.path, "config", "uploadpack.allowFilter", "true")
    git(place, "clone", "-q", "--filter=blob:limit=1m", hub.path.as_uri(), "strange")
    return place / "strange"


def _grafted(hub: Hub, place: Path) -> Path:
    git(place, "clone", "-q", "--bare", str(hub.path), "strange.git")
    (place / "strange.git" / "info" / "grafts").write_text(f"{hub.tip()}\n")
    return place / "strange.git"


def _linked_objects(hub: Hub, place: Path) -> Path:
    git(place, "clone", "-q", "--bare", str(hub.path), "strange.git")
    (place / "strange.git" / "objects").rename(place / "objects")
    (place / "strange.git" / "objects").symlink_to(place / "objects")
    return place / "strange.git"


def _linked_pack(hub: Hub, place: Path) -> Path:
    git(hub.path, "gc", "-q")
    git(place, "clone", "-q", "--bare", "--no-hardlinks", str(hub.path), "strange.git")
    (pack,) = (place / "strange.git" / "objects" / "pack").glob("*.pack")
    pack.rename(place / "elsewhere.pack")
    pack.symlink_to(place / "elsewhere.pack")
    return place / "strange.git"


def _stash(hub: Hub, place: Path) -> Path:
    (hub.work / "README.md").write_text("unfinished\n")
    git(hub.work, "stash", "-q")
    return hub.work


def _worktree(hub: Hub, place: Path) -> Path:
    git(hub.path, "worktree", "add", "-q", "--detach", str(place / "strange"), "main")
    return place / "strange"


@pytest.mark.parametrize(
    "make",
    [_alternates, _partial, _grafted, _linked_objects, _linked_pack, _stash, _worktree],
    ids=lambda make: make.__name__,
)
def test_a_hub_whose_objects_cannot_be_borrowed_is_fetched(
    hub: Hub, tmp_path: Path, make: Callable[[Hub, Path], Path]
) -> None:
    strange = make(hub, tmp_path)
    mirror = open_mirror(str(strange), tmp_path / "cache")
    assert not has_links(mirror)
    assert mirror.has(CommitId(git(strange, "rev-parse", "main")))
    read_all(mirror)


def test_nothing_is_borrowed_from_a_shallow_hub(hub: Hub, tmp_path: Path) -> None:
    """A run refuses it in `inspect_hub`, because a fetch does not bring the history either."""
    hub.commit({"src/a.py": "a = 2\n"})
    git(tmp_path, "clone", "-q", "--bare", "--depth=1", hub.path.as_uri(), "strange.git")
    mirror = open_mirror(str(tmp_path / "strange.git"), tmp_path / "cache")
    assert not has_links(mirror)
    assert mirror.has(hub.tip())


@pytest.mark.parametrize("named", ["work", "work/.git", "file"])
def test_nothing_is_borrowed_from_a_persons_own_clone(hub: Hub, tmp_path: Path, named: str) -> None:
    """It may hold staged, stashed or discarded content that others must not read."""
    (hub.work / "README.md").write_text("PASSWORD=1\n")
    git(hub.work, "add", "README.md")
    secret = git(hub.work, "rev-parse", ":README.md")
    place = hub.work.as_uri() if named == "file" else str(hub.work if named == "work" else hub.work / ".git")
    mirror = open_mirror(place, tmp_path / "cache")
    assert not has_links(mirror)
    read_all(mirror, git(hub.work, "rev-parse", "main"))
    scatter(hub.work / ".git")
    mirror.pack()
    assert find_object(mirror.git, secret) is None


def test_a_hub_with_long_ids_is_borrowed_from(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "--object-format=sha256", "work")
    git(tmp_path / "work", "commit", "-q", "--allow-empty", "-m", "first")
    git(tmp_path, "clone", "-q", "--bare", "work", "long")
    mirror = open_mirror(str(tmp_path / "long"), tmp_path / "cache")
    assert is_linked(mirror)
    read_all(mirror)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder to another user")
def test_a_hub_of_another_user_is_refused_as_git_refuses_it(hub: Hub, tmp_path: Path) -> None:
    for path in (hub.path, *hub.path.rglob("*")):
        os.chown(path, 4242, 4242)
    with pytest.raises(GitFailed, match="dubious ownership"):
        open_mirror(str(hub.path), tmp_path / "cache")
    assert not list((tmp_path / "cache" / "mirrors").glob("*.git"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder to another user")
def test_a_hub_of_another_user_is_not_packed(hub: Hub, mirror: Mirror) -> None:
    scatter(hub.path)
    os.chown(hub.path / "objects", 4242, 4242)
    before = loose(hub.path)
    mirror.pack()
    assert loose(hub.path) == before


def _other_disk(tmp_path: Path) -> Path:
    shared = Path("/dev/shm")
    if not shared.is_dir() or not os.access(shared, os.W_OK) or shared.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system")
    return shared


def test_objects_are_copied_from_another_disk(hub: Hub, tmp_path: Path) -> None:
    place = _other_disk(tmp_path) / f"forgepool-{os.getpid()}"
    try:
        hub.commit({"src/a.py": "a = 2\n"})
        git(hub.path, "gc", "-q")
        new = hub.commit({"src/a.py": "a = 3\n"})
        (pack,) = (hub.path / "objects" / "pack").glob("*.pack")
        mirror = open_mirror(str(hub.path), place)
        copied = {path.name for path in object_files(mirror.path)}
        assert pack.name in copied
        assert loose(mirror.path) == 0
        read_all(mirror, new)
        scatter(hub.path)
        scatter(mirror.path)
        mirror.pack()
        assert (loose(hub.path), loose(mirror.path)) == (0, 0)
        read_all(mirror, new)
    finally:
        shutil.rmtree(place)


def _half_made(cache: Path) -> int:
    """Count the loose objects of a mirror that is being made."""
    return sum(len(files) for place, _, files in os.walk(cache / "mirrors") if Path(place).parent.name == "objects")


def test_a_mirror_whose_maker_is_killed_is_made_again(hub: Hub, tmp_path: Path) -> None:
    scatter(hub.path, 1_000)
    program = (
        "import sys; from pathlib import Path; from forgepool.worktrees.hub.mirror import open_mirror\n"
        "open_mirror(sys.argv[1], Path(sys.argv[2]))"
    )
    cache = tmp_path / "cache"
    for least in (1, 100, 500, 1_000):
        process = subprocess.Popen([sys.executable, "-c", program, str(hub.path), str(cache)])
        while process.poll() is None and _half_made(cache) < least:
            time.sleep(0.001)
        process.kill()
        process.wait()
    mirror = open_mirror(str(hub.path), cache)
    read_all(mirror, hub.tip())
    assert {path.suffix for path in mirror.path.parent.iterdir()} == {".git", ".lock"}


def test_mirrors_made_while_the_hub_is_packed_and_pushed_to_are_whole(hub: Hub, tmp_path: Path) -> None:
    def work(number: int) -> None:
        hub.commit({"n": f"{number}\n"}, branch=f"b{number % 3}")
        git(hub.path, "gc", "-q", "--prune=now")

    with meanwhile(work):
        for number in range(6):
            mirror = open_mirror(str(hub.path), tmp_path / f"cache{number}")
            read_all(mirror)


def test_a_borrowed_commit_whose_tree_is_gone_is_fetched(hub: Hub, tmp_path: Path) -> None:
    """A killed `prune` may leave a commit without its tree. Later a person pushes that very commit."""
    new = hub.commit({"src/a.py": "a = 2\n"}, branch="topic")
    tree = git(hub.path, "rev-parse", f"{new}^{{tree}}")
    git(hub.path, "update-ref", "-d", "refs/heads/topic")
    (hub.path / "objects" / tree[:2] / tree[2:]).unlink()
    mirror = open_mirror(str(hub.path), tmp_path / "cache")
    git(hub.work, "push", "-q", "origin", f"{new}:refs/heads/topic")
    assert not mirror.has(new)
    mirror.ensure(new)
    read_all(mirror, new)


def test_many_loose_objects_are_packed_in_hub_and_mirror(hub: Hub, tmp_path: Path) -> None:
    scattered = scatter(hub.path)
    mirror = open_mirror(str(hub.path), tmp_path / "cache")
    own = commit_candidate(mirror.git, base=hub.tip(), tree=tree_of(mirror.git, hub.tip()), message="own", at=1)
    kept = {path: path.read_bytes() for path in hub.path.rglob("*") if path.is_file() and "objects" not in path.parts}
    mirror.pack()
    assert (loose(mirror.path), loose(hub.path)) == (0, 0)
    assert {path: path.read_bytes() for path in kept} == kept
    for name in scattered:
        assert read_blob(mirror.git, name)
        git(hub.path, "cat-file", "-e", name)
    read_all(mirror, own)


@pytest.mark.parametrize(("old", "cruft", "left"), [(100, "true", MANY - 100), (MANY, "true", 0), (MANY, "false", 0)])
def test_a_persons_own_gc_still_removes_what_no_ref_needs(
    hub: Hub, mirror: Mirror, old: int, cruft: str, left: int
) -> None:
    scattered = scatter(hub.path)
    long_ago = time.time() - 30 * 86400
    for name in scattered[:old]:
        os.utime(hub.path / "objects" / name[:2] / name[2:], (long_ago, long_ago))
    mirror.pack()
    assert loose(hub.path) == 0
    git(hub.path, "-c", f"gc.cruftPacks={cruft}", "gc", "-q", "--prune=2.weeks.ago")
    assert len({*scattered} & {*git(hub.path, "cat-file", "--batch-all-objects", "--batch-check").split()}) == left
    git(hub.path, "fsck", "--strict", "--no-dangling")


def test_loose_objects_of_the_mirror_alone_are_packed(hub: Hub, mirror: Mirror) -> None:
    scattered = scatter(mirror.path)
    assert read_blob(mirror.git, scattered[0])
    mirror.pack()
    assert loose(mirror.path) == 0
    assert [read_blob(mirror.git, name) for name in scattered]
    assert loose(hub.path) > 0


def test_few_loose_objects_are_left(hub: Hub, mirror: Mirror) -> None:
    before = loose(hub.path), loose(mirror.path)
    mirror.pack()
    assert (loose(hub.path), loose(mirror.path)) == before


def test_a_hub_that_collects_its_garbage_is_left_alone(hub: Hub, mirror: Mirror) -> None:
    scatter(hub.path)
    (hub.path / "gc.pid").write_text(f"{os.getpid()} here")
    mirror.pack()
    assert loose(hub.path) > MANY


def test_a_damaged_object_of_the_hub_stops_no_run(hub: Hub, mirror: Mirror) -> None:
    scatter(hub.path)
    name = git(hub.path, "rev-parse", "main:README.md")
    path = hub.path / "objects" / name[:2] / name[2:]
    path.chmod(0o644)
    path.write_bytes(b"")
    mirror.pack()
    assert loose(hub.path) > MANY


def test_candidates_pushed_while_everything_is_packed_are_whole(hub: Hub, mirror: Mirror) -> None:
    base, made = hub.tip(), list[CommitId]()
    tree = tree_of(mirror.git, base)

    def work(number: int) -> None:
        commit = commit_candidate(mirror.git, base=base, tree=tree, message=f"{number}", at=number)
        ref = f"refs/forgepool/r1/orders/t{number}/1"
        assert mirror.push([RefUpdate(ref=ref, new=commit, expected=None)]) == Pushed()
        made.append(commit)

    with meanwhile(work):
        for number in range(3):
            scatter(hub.path, MANY + number)
            scatter(mirror.path, MANY + 100 + number)
            mirror.pack()
    assert made
    read_all(mirror, *made)
    git(hub.path, "fsck", "--strict", "--no-dangling", *made)


def _own_commit(hub: Hub, mirror: Mirror) -> CommitId:
    """Make a commit that only the mirror has, and no ref needs, as of an order under way."""
    return commit_candidate(mirror.git, base=hub.tip(), tree=tree_of(mirror.git, hub.tip()), message="own", at=1)


def _object(repository: Path, name: str) -> Path:
    return repository / "objects" / name[:2] / name[2:]


def _empty(file: Path) -> None:
    file.parent.mkdir(exist_ok=True)
    file.unlink(missing_ok=True)
    file.touch()


def _draft(mirror: Mirror, pool: Path) -> None:
    for place in ("ab/tmp_obj_1", "pack/tmp_pack_1", "pack/tmp_idx_1"):
        _empty(mirror.path / "objects" / place)


def _strange_head(mirror: Mirror, pool: Path) -> None:
    with lease_checkout(mirror, CommitId(mirror.git.text("rev-parse", "refs/hub/heads/main")), pool) as checkout:
        (checkout.admin / "HEAD").write_text("1" * 40 + "\n")


@pytest.mark.parametrize("oddity", [_draft, _strange_head])
def test_a_sound_mirror_is_not_made_again(
    hub: Hub, mirror: Mirror, pool: Path, oddity: Callable[[Mirror, Path], None]
) -> None:
    oddity(mirror, pool)
    assert not is_damaged(mirror.path)


def test_a_mirror_with_an_empty_or_missing_object_is_damaged(hub: Hub, mirror: Mirror) -> None:
    own = _object(mirror.path, _own_commit(hub, mirror))
    _empty(own)
    assert is_damaged(mirror.path)
    own.unlink()
    assert not is_damaged(mirror.path)
    _object(mirror.path, mirror.git.text("rev-parse", "refs/hub/heads/main:README.md")).unlink()
    assert is_damaged(mirror.path)


@pytest.mark.parametrize("packed", [True, False])
def test_work_under_way_outlives_a_mirror_that_is_made_again(
    hub: Hub, mirror: Mirror, pool: Path, packed: bool
) -> None:
    own = _own_commit(hub, mirror)
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        (checkout.path / "new").write_text("work\n")
        before = checkout.snapshot()
        if packed:
            scatter(mirror.path)
            mirror.pack()
            assert not _object(mirror.path, own).exists()
        _empty(_object(mirror.path, git(hub.path, "rev-parse", "main:README.md")))
        wrong = _object(mirror.path, "ab" * 20)
        wrong.parent.mkdir(exist_ok=True)
        wrong.write_bytes(zlib.compress(b"blob 0\0"))
        (mirror.path / "doubted").touch()
        made = mirror.path.stat().st_ino
        open_mirror(mirror.hub, mirror.path.parents[1])
        assert mirror.path.stat().st_ino != made
        assert not wrong.exists()
        assert checkout.snapshot() == before
        assert git(checkout.path, "status", "--short") == "?? new"
    read_all(mirror, own, before)


def test_a_broken_pack_is_not_kept(hub: Hub, mirror: Mirror) -> None:
    own = _own_commit(hub, mirror)
    scatter(mirror.path)
    mirror.pack()
    (pack,) = (mirror.path / "objects" / "pack").glob("*.pack")
    pack.chmod(0o644)
    pack.write_bytes(pack.read_bytes()[:-30])
    _empty(_object(mirror.path, "ab" * 20))
    (mirror.path / "doubted").touch()
    open_mirror(mirror.hub, mirror.path.parents[1])
    assert not mirror.has(own)
    read_all(mirror)
    assert not (mirror.path / "doubted").exists()
