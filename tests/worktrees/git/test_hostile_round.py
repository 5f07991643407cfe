"""
Everything the harness does with a checkout, repeated after each of many hostile deeds.

The steps are lease, snapshot, candidate, changes, composition, push and the next lease. A program that must never run
leaves a trace if it does.
"""

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hostile import ODD_NAMES, Aims, hostile_repository
from repositories import Hub, git, nest

from forgepool.worktrees.checkouts.checkout import Checkout, Unusable, lease_checkout
from forgepool.worktrees.commits.candidate import commit_candidate
from forgepool.worktrees.commits.changes import changes, read_file, tree_paths
from forgepool.worktrees.commits.compose import Composed, Entry, compose, tree_of
from forgepool.worktrees.git.git import CommitId
from forgepool.worktrees.hub.mirror import Mirror, open_mirror
from forgepool.worktrees.hub.push import Pushed, RefUpdate

Deed = Callable[[Checkout, Path], None]

CLEAN = {".git", ".gitignore", "README.md", "src"}


def whole_way(mirror: Mirror, checkout: Checkout) -> CommitId:
    """Take the files to the hub, and return the candidate that arrived there."""
    base = checkout.commit
    made = commit_candidate(checkout.git, base=base, tree=checkout.snapshot(), message="work", at=1)
    changes(mirror.git, base, made)
    checkout.list_altered()
    assert isinstance(compose(mirror.git, base, [Entry(commit=made, name="t", message="m")]), Composed)
    ref = f"refs/forgepool/r/orders/t/{time.monotonic_ns()}"
    assert mirror.push([RefUpdate(ref=ref, new=made, expected=None)]) == Pushed()
    assert mirror.hub_refs(ref) == {ref: made}
    checkout.take(tree_of(mirror.git, made))
    return made


def configured(folder: Path, program: Path, **more: str) -> None:
    """Set every key of a repository's configuration that names a program."""
    keys = ("core.fsmonitor", "core.sshCommand", "core.askPass", "core.pager", "core.editor", "diff.external")
    drivers = (
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "diff.evil.textconv",
        "merge.evil.driver",
    )
    others = ("credential.helper", "gpg.program", "core.alternateRefsCommand", "uploadpack.packObjectsHook")
    for key in (*keys, *drivers, *others, "remote.origin.uploadpack", "remote.origin.receivepack"):
        git(folder, "config", key, str(program))
    for key, value in ({"core.hooksPath": str(program.parent)} | more).items():
        git(folder, "config", key, value)


def another_repository(folder: Path, program: Path) -> None:
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q")
    (folder / "file").write_text("x")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "x")
    configured(folder, program)
    for name in ("post-index-change", "pre-commit", "post-checkout", "reference-transaction", "pre-push"):
        (folder / ".git/hooks").mkdir(exist_ok=True)
        (folder / ".git/hooks" / name).symlink_to(program)


def git_file(checkout: Checkout, program: Path) -> None:
    """Point the `.git` file to a hostile repository beside the checkout."""
    another_repository(program.parent / "theirs", program)
    (checkout.path / ".git").write_text(f"gitdir: {program.parent}/theirs/.git\n")


def git_link(checkout: Checkout, program: Path) -> None:
    another_repository(program.parent / "theirs", program)
    (checkout.path / ".git").unlink()
    (checkout.path / ".git").symlink_to(program.parent / "theirs" / ".git")


def git_folder(checkout: Checkout, program: Path) -> None:
    (checkout.path / ".git").unlink()
    another_repository(checkout.path, program)


def git_bare(checkout: Checkout, program: Path) -> None:
    """Make the work tree itself look like a bare repository."""
    git(checkout.path, "init", "-q", "--bare", "bare")
    for each in (checkout.path / "bare").iterdir():
        each.rename(checkout.path / each.name)
    (checkout.path / "config").write_text(f"[core]\n\tbare = true\n\tfsmonitor = {program}\n\tworktree = .\n")


def own_configuration(checkout: Checkout, program: Path) -> None:
    """Write into the mirror's configuration with `git config`, for one worktree and for all."""
    more = {"extensions.partialClone": "origin", "remote.origin.promisor": "true", "remote.origin.url": "ext::sh"}
    configured(checkout.path, program, **more)
    git(checkout.path, "config", "extensions.worktreeConfig", "true")
    git(checkout.path, "config", "--worktree", "core.fsmonitor", str(program))
    git(checkout.path, "config", "include.path", str(program))
    (checkout.path / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")


def mirror_files(checkout: Checkout, program: Path) -> None:
    """Write all files that git reads in a repository except its configuration, as a weak sandbox may allow."""
    mirror = checkout.mirror.path
    (mirror / "info").mkdir(exist_ok=True)
    another_repository(program.parent / "theirs", program)
    theirs = program.parent / "theirs" / ".git"
    for name, text in {
        "commondir": str(theirs),
        "info/attributes": "* filter=evil\n",
        "info/grafts": f"{checkout.commit}\n",
        "info/exclude": "*\n",
        "shallow": f"{checkout.commit}\n",
        "objects/info/alternates": f"{theirs}/objects\n",
        "objects/info/http-alternates": "http://127.0.0.1:1/\n",
        "config.worktree": f"[core]\n\tfsmonitor = {program}\n",
    }.items():
        (mirror / name).parent.mkdir(exist_ok=True)
        (mirror / name).write_text(text)
    (mirror / "hooks").mkdir()
    for name in ("pre-push", "post-index-change", "reference-transaction"):
        (mirror / "hooks" / name).symlink_to(program)


def replaced_objects(checkout: Checkout, program: Path) -> None:
    """Replace the base's tree and its commit by others."""
    empty = git(checkout.path, "mktree", "--missing")
    other = git(checkout.path, "commit-tree", "-m", "other", empty)
    git(checkout.path, "replace", "-f", checkout.commit, other)


def back_pointers(checkout: Checkout, program: Path) -> None:
    another_repository(program.parent / "theirs", program)
    (checkout.admin / "commondir").write_text(f"{program.parent}/theirs/.git\n")
    (checkout.admin / "gitdir").write_text("/nowhere/.git\n")
    (checkout.admin / "config.worktree").write_text(f"[core]\n\tfsmonitor = {program}\n")
    (checkout.admin / "HEAD").write_text("ref: refs/heads/../../../x\n")


def left_locks(checkout: Checkout, program: Path) -> None:
    for place in (checkout.admin / "index.lock", checkout.admin / "HEAD.lock", checkout.path / "index.lock"):
        place.write_text("")


def submodules(checkout: Checkout, program: Path) -> None:
    text = f'[submodule "x"]\n\tpath = sub\n\turl = ext::{program}\n\tupdate = !{program}\n\tignore = none\n'
    (checkout.path / ".gitmodules").write_text(text)
    (checkout.path / "sub").mkdir()
    (checkout.path / "sub" / "file").write_text("x")


def attributes(checkout: Checkout, program: Path) -> None:
    """Set attributes for which git needs no program; they must not disturb the steps."""
    text = "*.txt ident export-subst text eol=crlf\n*.u16 working-tree-encoding=UTF-16\n* whitespace=fix -diff\n"
    (checkout.path / ".gitattributes").write_text(text + "[attr]evil filter=evil\nsrc/** evil\n")
    (checkout.path / "a.txt").write_text("$Id$\n$Format:%H$\n")
    (checkout.path / "a.u16").write_bytes("text\n".encode("utf-16"))


def much_ignored(checkout: Checkout, program: Path) -> None:
    """Write 20,000 ignore patterns."""
    lines = [f"no-{number}/**/x*y*z" for number in range(20_000)]
    (checkout.path / ".gitignore").write_text("\n".join(lines))
    for number in range(50):
        (checkout.path / ("a" * 100 + str(number))).write_text("x")


def odd_names(checkout: Checkout, program: Path) -> None:
    for name in ODD_NAMES:
        (checkout.path / name).write_text("odd\n")
    for name in (b"\xff\xfe", b"caf\xe9", b"-\xff"):
        (checkout.path / os.fsdecode(name)).write_text("odd\n")


@pytest.mark.parametrize(
    "deed",
    [
        *(git_file, git_link, git_folder, git_bare, own_configuration, mirror_files, replaced_objects, back_pointers),
        *(left_locks, submodules, attributes, much_ignored, odd_names),
    ],
)
def test_the_whole_way_runs_nothing_and_loses_nothing(
    hub: Hub, mirror: Mirror, pool: Path, evil: tuple[Path, Path], deed: Deed
) -> None:
    """The agent's own change arrives in the hub on the right base, and the next lease is clean."""
    program, trace = evil
    began = time.monotonic()
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        deed(checkout, program)
        (checkout.path / "src" / "mine.py").write_text("mine = 1\n")
        trace.unlink(missing_ok=True)
        made = whole_way(mirror, checkout)
        assert read_file(mirror.git, made, "src/mine.py") == b"mine = 1\n"
        assert read_file(mirror.git, made, "src/a.py") == b"a = 1\n"
        assert mirror.git.text("rev-parse", f"{made}^") == hub.tip()
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert {each.name for each in checkout.path.iterdir()} == CLEAN
        assert checkout.snapshot() == tree_of(mirror.git, hub.tip())
    assert not trace.exists(), trace.read_text()
    assert time.monotonic() - began < 30


def test_every_name_arrives_as_it_is(hub: Hub, mirror: Mirror, pool: Path, evil: tuple[Path, Path]) -> None:
    """
    Names with line breaks, escapes and dashes, names that look like options or patterns, and names that are not UTF-8.
    """
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        before = set(tree_paths(mirror.git, hub.tip()))
        odd_names(checkout, evil[0])
        made = whole_way(mirror, checkout)
    known = {*ODD_NAMES, *map(os.fsdecode, (b"\xff\xfe", b"caf\xe9", b"-\xff"))}
    assert set(tree_paths(mirror.git, made)) - before == known
    with lease_checkout(mirror, made, pool) as checkout:
        assert known <= {each.name for each in checkout.path.iterdir()}


@pytest.mark.parametrize(
    "name", [".GIT", ".Git/config", "git~1", "sub/.gIt/hooks/x", ".g\u200cit", ".git ", ".git::$INDEX"]
)
def test_a_name_that_some_system_takes_for_gits_own_is_told(hub: Hub, mirror: Mirror, pool: Path, name: str) -> None:
    """Git refuses such a name, so that no checkout becomes another repository. The agent is told which name it is."""
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        (checkout.path / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout.path / name).write_text("x")
        with pytest.raises(Unusable, match=r"[Ii]nvalid path"):
            checkout.snapshot()
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert {each.name for each in checkout.path.iterdir()} == CLEAN


def test_patterns_that_take_for_ever_are_told(hub: Hub, mirror: Mirror, pool: Path) -> None:
    """A backtracking pattern would block the harness, so the agent is told what to change."""
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        (checkout.path / ".gitignore").write_text("a*" * 12 + "b\n")
        (checkout.path / ("a" * 100 + "1")).write_text("x")
        with pytest.raises(Unusable, match=r"simplify \.gitignore"):
            checkout.snapshot(within_s=1)
        (checkout.path / ".gitignore").write_text("*.o\n")
        assert read_file(mirror.git, whole_way(mirror, checkout), "a" * 100 + "1") == b"x"
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert {each.name for each in checkout.path.iterdir()} == CLEAN


@pytest.mark.parametrize("inside", ["sub", "src", "sub/deeper"])
def test_a_repository_inside_is_told_and_runs_nothing(
    hub: Hub, mirror: Mirror, pool: Path, evil: tuple[Path, Path], inside: str
) -> None:
    program, trace = evil
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        (checkout.path / inside).parent.mkdir(exist_ok=True)
        another_repository(checkout.path / inside, program)
        (checkout.path / inside / ".gitattributes").write_text("* filter=evil\n")
        trace.unlink(missing_ok=True)
        if inside == "src":  # its files are tracked here, and stay so
            whole_way(mirror, checkout)
        else:
            with pytest.raises(Unusable, match=r"repository"):
                checkout.snapshot()
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert {each.name for each in checkout.path.iterdir()} == CLEAN
    assert not trace.exists(), trace.read_text()


def test_folders_deeper_than_a_path_can_be_long_are_told_and_gone_in_the_next_lease(
    hub: Hub, mirror: Mirror, pool: Path
) -> None:
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        nest(checkout.path, 400)
        with pytest.raises(Unusable, match="cannot be read whole"):
            checkout.snapshot()
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert {each.name for each in checkout.path.iterdir()} == CLEAN


def test_no_checkout_writes_through_a_link_of_the_commit_before(
    hub: Hub, mirror: Mirror, pool: Path, tmp_path: Path
) -> None:
    """
    One slot gets a commit with a link to outside, then one with a folder of that name. An agent's own link is tried as
    well.
    """
    outside = tmp_path / "outside"
    outside.mkdir()
    (hub.work / "deps").symlink_to(outside)
    linked = hub.commit({}, branch="linked")
    assert mirror_has(mirror, linked, "deps") == os.fsencode(outside)
    (hub.work / "deps").unlink(missing_ok=True)
    foldered = hub.commit({"deps/file": "x\n", "deps/.gitattributes": "* text\n"}, branch="foldered")
    mirror.ensure(foldered)
    for commit in (linked, foldered, linked, foldered):
        with lease_checkout(mirror, commit, pool) as checkout:
            assert checkout.path.name == "slot-1"
            whole_way(mirror, checkout)
            if commit == foldered:
                (checkout.path / "deps").rename(checkout.path / "moved")
                (checkout.path / "deps").symlink_to(outside)
                checkout.take(tree_of(mirror.git, foldered))
                assert (checkout.path / "deps" / "file").read_text() == "x\n"
                assert not (checkout.path / "deps").is_symlink()
    assert list(outside.iterdir()) == []


def mirror_has(mirror: Mirror, commit: CommitId, path: str) -> bytes | None:
    mirror.ensure(commit)
    return read_file(mirror.git, commit, path)


def test_the_hostile_repository_goes_the_whole_way(tmp_path: Path, pool: Path, evil: tuple[Path, Path]) -> None:
    """Fetch it, check it out, change it, commit, compose and push: git runs none of its programs."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("SECRET")
    (tmp_path / "theirs").mkdir()
    aims = Aims(outside=str(outside), home="/nonexistent", hub="/nonexistent", pid=1, port=1, socket="/nonexistent")
    made = hostile_repository(tmp_path / "theirs", aims, git)
    git(tmp_path, "clone", "-q", "--bare", "--no-local", str(made.path), "theirs.git")
    made.canary.unlink(missing_ok=True)
    before = sorted(each.name for each in outside.iterdir())
    mirror = open_mirror(str(tmp_path / "theirs.git"), tmp_path / "cache")
    tip = mirror.hub_refs("refs/heads/main")["refs/heads/main"]
    for number in range(2):
        with lease_checkout(mirror, tip, pool) as checkout:
            assert (checkout.path / "secret.txt").is_symlink()
            (checkout.path / "new").write_text("x")
            candidate = whole_way(mirror, checkout)
            assert [each.path for each in changes(mirror.git, tip, candidate)] == ["new"], number
    assert not made.canary.exists(), made.canary.read_text()
    assert sorted(each.name for each in outside.iterdir()) == before


@pytest.mark.parametrize(
    ("argv", "settings"),
    [
        (("status",), {"core.fsmonitor": ""}),
        (("add", "-A"), {"filter.evil.clean": ""}),
        (("commit", "-qam", "x"), {"core.hooksPath": "hooks"}),
        (("diff", "HEAD"), {"diff.external": ""}),
    ],
)
def test_careless_git_is_caught_by_the_trace(
    hub: Hub, evil: tuple[Path, Path], argv: tuple[str, ...], settings: Mapping[str, str]
) -> None:
    """This proves that the tests above would see a program that runs."""
    program, trace = evil
    (hub.work / "hooks").mkdir()
    (hub.work / "hooks" / "pre-commit").symlink_to(program)
    (hub.work / ".gitattributes").write_text("* filter=evil\n")
    (hub.work / "README.md").write_text("changed\n")
    for key, value in settings.items():
        git(hub.work, "config", key, value or str(program))
    subprocess.run(["git", *argv], cwd=hub.work, check=False, capture_output=True)
    assert trace.exists()
