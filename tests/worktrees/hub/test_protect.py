"""Only the queue can move a protected branch. Everything else at the hub works as before, and removal restores it."""

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from repositories import IDENTITY, Hub, git

from forgepool.worktrees.commits.compose import Composed, Entry, compose
from forgepool.worktrees.git.git import CommitId
from forgepool.worktrees.hub.mirror import Mirror, open_mirror
from forgepool.worktrees.hub.pre_receive import CannotProtect
from forgepool.worktrees.hub.protect import gate_option, protect, protection, token_at, unprotect
from forgepool.worktrees.hub.push import Pushed, PushRefused, RefUpdate
from forgepool.worktrees.hub.target import Moved, NotMoved, TargetElsewhere, move_target

MARKER = "refs/forgepool/r1/landed/t"
TOLD = "main is moved by its gate alone; push a branch of your own, then: forgepool queue submit BRANCH"


def push(hub: Hub, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Push as a person does, and return the result, also of a failure."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(
        ["git", "push", "-q", *argv],
        cwd=hub.work,
        env={**kept, **IDENTITY, **env},
        check=False,
        capture_output=True,
        text=True,
    )


def work(hub: Hub) -> str:
    """Make a commit on main in the person's clone, without a push."""
    git(hub.work, "commit", "-q", "--allow-empty", "-m", "mine")
    return git(hub.work, "rev-parse", "HEAD")


def install(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def everything(hub: Hub) -> dict[str, tuple[object, ...]]:
    """Return each file of the hub except objects, with mode and content, or the target of a link."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(hub.path.rglob("*")):
        name = str(path.relative_to(hub.path))
        if name.startswith("objects/"):
            continue
        if path.is_symlink():
            found[name] = ("link", path.readlink())
        else:
            found[name] = (path.stat().st_mode, path.read_bytes() if path.is_file() else None)
    return found


def land(hub: Hub, mirror: Mirror) -> Moved | TargetElsewhere | NotMoved:
    """Land a change as the queue does."""
    done = hub.commit({"topic": "x\n"}, branch="topic")
    mirror.fetch()
    tip = hub.tip()
    made = compose(mirror.git, tip, [Entry(commit=done, name="t", message="t")])
    assert isinstance(made, Composed)
    return move_target(
        mirror,
        target="main",
        commit=made.commit,
        expected_tip=tip,
        certified_tree=made.tree,
        markers={MARKER: made.commit},
    )


def known(mirror: Mirror, token: str | None) -> Mirror:
    """Return the mirror of a queue that has this token."""
    option = gate_option(token) if token is not None else None
    return Mirror(path=mirror.path, hub=mirror.hub, push_option=option)


@pytest.fixture
def git_url(hub: Hub) -> Iterator[str]:
    """Yield the hub's URL at git's own daemon, as another host sees it."""
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port = asked.getsockname()[1]
    words = (
        "--listen=127.0.0.1",
        f"--port={port}",
        "--reuseaddr",
        "--export-all",
        "--enable=receive-pack",
        "--verbose",
    )
    argv = ["git", "daemon", *words, f"--base-path={hub.path.parent}", str(hub.path.parent)]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env={**os.environ, **IDENTITY}) as daemon:
        assert daemon.stderr is not None
        assert "Ready to rumble" in daemon.stderr.readline()
        yield f"git://127.0.0.1:{port}/hub.git"
        daemon.terminate()


@pytest.mark.parametrize("refspec", ["HEAD:main", "+HEAD~2:main", ":main"], ids=["forward", "forced", "deleted"])
def test_a_persons_push_to_a_gated_branch_moves_nothing_and_says_what_to_do(hub: Hub, refspec: str) -> None:
    git(hub.work, "commit", "-q", "--allow-empty", "-m", "second")
    git(hub.work, "push", "-q", "origin", "main")
    protect(str(hub.path), ["main"])
    tip = hub.tip()
    work(hub)
    said = push(hub, "origin", refspec)
    assert said.returncode != 0 and TOLD in said.stderr
    assert hub.tip() == tip


def test_a_push_to_another_branch_passes(hub: Hub) -> None:
    protect(str(hub.path), ["main"])
    mine = work(hub)
    for branch in ("topic", "main-2", "x/main"):
        said = push(hub, "origin", f"HEAD:refs/heads/{branch}")
        assert said.returncode == 0, said.stderr
        assert hub.tip(branch) == mine


def test_a_gated_branch_is_not_moved_by_a_name_that_leads_to_it(hub: Hub) -> None:
    git(hub.path, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    protect(str(hub.path), ["main"])
    tip = hub.tip()
    work(hub)
    said = push(hub, "origin", "HEAD:alias")
    assert TOLD in said.stderr and hub.tip() == tip


def test_a_landing_with_the_token_passes(hub: Hub, mirror: Mirror) -> None:
    protect(str(hub.path), ["main"])
    answer = land(hub, known(mirror, token_at(str(hub.path))))
    assert answer == Moved(hub.tip())
    assert mirror.hub_refs(MARKER) == {MARKER: hub.tip()}


@pytest.mark.parametrize(
    ("token", "words"), [("0" * 64, "is not the gate's"), ('a"\\$(id)`', "is not the gate's"), (None, TOLD)]
)
def test_a_landing_without_the_right_token_is_refused_with_the_hooks_words(
    hub: Hub, mirror: Mirror, token: str | None, words: str
) -> None:
    protect(str(hub.path), ["main"])
    tip = hub.tip()
    answer = land(hub, known(mirror, token))
    assert isinstance(answer, NotMoved) and words in answer.reason
    assert hub.tip() == tip and mirror.hub_refs(MARKER) == {}


def test_the_digest_in_the_hub_is_no_token(hub: Hub, mirror: Mirror) -> None:
    protect(str(hub.path), ["main"])
    digest = (hub.path / "forgepool/gate/digest").read_text().strip()
    assert isinstance(land(hub, known(mirror, digest)), NotMoved)


def test_the_token_is_the_owners_alone_and_in_no_command_line(hub: Hub, mirror: Mirror) -> None:
    now = protect(str(hub.path), ["main"])
    token = now.token.read_text().strip()
    assert now.token.stat().st_mode & 0o777 == 0o600
    assert len(token) == 64 and token_at(f"file://{hub.path}") == token
    gate = known(mirror, token)
    seen = hub.path.parent / "seen"
    install(hub.path / "hooks/post-receive", f"cat /proc/$PPID/cmdline /proc/[0-9]*/cmdline 2>/dev/null >{seen}")
    assert isinstance(land(hub, gate), Moved)
    assert b"receive-pack" in seen.read_bytes() and token.encode() not in seen.read_bytes()
    assert token not in repr(gate)


def test_a_hub_that_takes_no_push_options_is_pushed_to_without(hub: Hub, tmp_path: Path, git_url: str) -> None:
    """An unprotected hub on another host accepts landings as before."""
    gate = open_mirror(git_url, tmp_path / "cache", push_option=gate_option("token"))
    heard = tmp_path / "heard"
    install(hub.path / "hooks/pre-receive", f'echo "$GIT_PUSH_OPTION_COUNT" >>{heard}')
    for option, ref in (("false", "refs/forgepool/r1/one"), ("true", "refs/forgepool/r1/two")):
        git(hub.path, "config", "receive.advertisePushOptions", option)
        assert gate.push([RefUpdate(ref=ref, new=hub.tip(), expected=None)]) == Pushed()
    assert heard.read_text().splitlines() == ["0", "1"]


def test_a_guarded_hub_of_another_host_knows_the_gate_by_its_setting(hub: Hub, tmp_path: Path, git_url: str) -> None:
    token = protect(str(hub.path), ["main"]).token.read_text().strip()
    stranger = open_mirror(git_url, tmp_path / "cache")
    assert token_at(git_url) is None and isinstance(land(hub, stranger), NotMoved)
    assert isinstance(land(hub, known(stranger, token)), Moved)


def test_a_hook_that_was_there_is_run_and_hears_what_it_heard(hub: Hub, mirror: Mirror) -> None:
    heard = hub.path.parent / "heard"
    install(hub.path / "hooks/pre-receive", f'echo "$0" >{heard}; cat >>{heard}')
    now = protect(str(hub.path), ["main"])
    tip = hub.tip()
    answer = land(hub, known(mirror, token_at(str(hub.path))))
    assert isinstance(answer, Moved)
    name, *updates = heard.read_text().splitlines()
    assert name.endswith("/pre-receive") and now.kept is not None
    zero = "0" * 40
    assert sorted(updates) == sorted([f"{tip} {answer.commit} refs/heads/main", f"{zero} {answer.commit} {MARKER}"])


def test_a_hook_that_was_there_can_still_refuse(hub: Hub, mirror: Mirror) -> None:
    install(hub.path / "hooks/pre-receive", "echo 'not on a Friday' >&2; exit 7")
    protect(str(hub.path), ["main"])
    tip = hub.tip()
    gate = known(mirror, token_at(str(hub.path)))
    answer = gate.push([RefUpdate(ref="refs/heads/topic", new=tip, expected=None)])
    assert isinstance(answer, PushRefused) and "not on a Friday" in answer.reason
    work(hub)
    assert push(hub, "origin", "HEAD:other").returncode != 0


def test_a_hook_that_git_would_not_run_is_not_run(hub: Hub) -> None:
    install(hub.path / "hooks/pre-receive", "exit 1")
    (hub.path / "hooks/pre-receive").chmod(0o644)
    protect(str(hub.path), ["main"])
    work(hub)
    assert push(hub, "origin", "HEAD:other").returncode == 0


@pytest.mark.parametrize("before", ["nothing", "no folder", "a hook", "a link", "a dead link", "settings"])
def test_off_leaves_the_hub_byte_for_byte_as_it_was(hub: Hub, before: str) -> None:
    hook = hub.path / "hooks/pre-receive"
    if before == "no folder":
        for file in (hub.path / "hooks").iterdir():
            file.unlink()
        (hub.path / "hooks").rmdir()
    if before == "a hook":
        install(hook, "exit 0")
        hook.chmod(0o700)
    if before == "a link":
        install(hub.path / "hooks/other", "exit 0")
        hook.symlink_to("other")
    if before == "a dead link":
        hook.symlink_to("../nowhere")
    if before == "settings":
        git(hub.path, "config", "receive.advertisePushOptions", "false")
        git(hub.path, "config", "core.hooksPath", "./hooks")
    was = everything(hub)
    protect(str(hub.path), ["main"])
    assert everything(hub) != was
    work(hub)
    assert TOLD in push(hub, "origin", "HEAD:main").stderr
    assert unprotect(str(hub.path)).targets == ()
    assert everything(hub) == was
    assert push(hub, "origin", "HEAD:main").returncode == 0


def test_off_keeps_what_somebody_set_meanwhile(hub: Hub) -> None:
    protect(str(hub.path), ["main"])
    git(hub.path, "config", "gc.auto", "0")
    unprotect(str(hub.path))
    assert git(hub.path, "config", "gc.auto") == "0"
    assert "advertisepushoptions" not in git(hub.path, "config", "--local", "--list")


def test_twice_is_once(hub: Hub) -> None:
    install(hub.path / "hooks/pre-receive", "exit 0")
    was = everything(hub)
    first = protect(str(hub.path), ["main"])
    once = everything(hub)
    assert protect(str(hub.path), ["main"]) == first
    assert everything(hub) == once
    unprotect(str(hub.path))
    assert unprotect(str(hub.path)).in_force is False
    assert everything(hub) == was


def test_targets_are_added_and_taken_away_one_by_one(hub: Hub) -> None:
    hub.commit({"a": "a\n"}, branch="release/1")
    protect(str(hub.path), ["main"])
    assert protect(str(hub.path), ["release/1"]).targets == ("main", "release/1")
    work(hub)
    assert push(hub, "origin", "HEAD:release/1", "--force").returncode != 0
    assert unprotect(str(hub.path), ["release/1"]).targets == ("main",)
    assert push(hub, "origin", "HEAD:release/1", "--force").returncode == 0
    assert TOLD in push(hub, "origin", "HEAD:main").stderr
    with pytest.raises(CannotProtect, match="'release/1' is not gated; gated are: main"):
        unprotect(str(hub.path), ["release/1"])


def test_the_folder_of_hooks_that_the_hub_names_is_used_and_may_be_shared(hub: Hub, tmp_path: Path) -> None:
    other = Hub(path=tmp_path / "other.git", work=hub.work)
    git(tmp_path, "clone", "-q", "--bare", str(hub.path), str(other.path))
    for each in (hub, other):
        git(each.path, "config", "core.hooksPath", str(tmp_path / "hooks"))
    assert protect(str(hub.path), ["main"]).hook == tmp_path / "hooks/pre-receive"
    work(hub)
    assert TOLD in push(hub, str(hub.path), "HEAD:main").stderr
    assert push(hub, str(other.path), "HEAD:main").returncode == 0
    protect(str(other.path), ["main"])
    unprotect(str(hub.path))
    assert TOLD in push(hub, str(other.path), "HEAD~1:main", "--force").stderr
    unprotect(str(other.path))
    assert not (tmp_path / "hooks/pre-receive").exists()


def test_the_git_folder_of_a_working_copy_is_guarded_through_each_of_its_worktrees(hub: Hub, tmp_path: Path) -> None:
    git(hub.work, "checkout", "-q", "-b", "aside")
    git(hub.work, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "linked")
    now = protect(str(hub.work), ["main"])
    assert now.hub == hub.work / ".git" and now.in_force
    git(tmp_path, "clone", "-q", str(hub.work), "clone")
    clone = Hub(path=hub.path, work=tmp_path / "clone")
    work(clone)
    for where in (hub.work, hub.work / ".git", tmp_path / "linked"):
        assert TOLD in push(clone, str(where), "HEAD:main").stderr
        assert push(clone, str(where), "HEAD:free").returncode == 0
    gate = open_mirror(
        str(hub.work / ".git"), tmp_path / "cache", push_option=gate_option(now.token.read_text().strip())
    )
    gate.ensure(tip := CommitId(git(hub.work, "rev-parse", "free")), refs=["refs/heads/free"])
    old = CommitId(git(hub.work, "rev-parse", "main"))
    assert gate.push([RefUpdate(ref="refs/heads/main", new=tip, expected=old)]) == Pushed()


def test_a_hook_put_in_the_guards_place_is_seen_and_not_lost(hub: Hub) -> None:
    install(hub.path / "hooks/pre-receive", "exit 0")
    protect(str(hub.path), ["main"])
    install(hub.path / "hooks/pre-receive", "exit 1")
    assert not protection(str(hub.path)).in_force
    changes: tuple[Callable[[], object], ...] = (
        lambda: protect(str(hub.path), ["main"]),
        lambda: unprotect(str(hub.path)),
    )
    for change in changes:
        with pytest.raises(CannotProtect, match="an older one is kept in"):
            change()
    assert (hub.path / "hooks/pre-receive").read_text() == "#!/bin/sh\nexit 1\n"


def test_an_interrupted_beginning_is_gone_on_with(hub: Hub) -> None:
    hook = hub.path / "hooks/pre-receive"
    install(hook, "exit 0")
    was = everything(hub)
    protect(str(hub.path), ["main"])
    hook.write_bytes((hook.parent / "forgepool-kept/pre-receive").read_bytes())
    assert protect(str(hub.path), ["main"]).in_force
    unprotect(str(hub.path))
    assert everything(hub) == was


def test_whoever_pushes_can_read_what_the_hook_needs_and_not_the_token(hub: Hub) -> None:
    install(hub.path / "hooks/pre-receive", "exit 0")
    before = os.umask(0o077)
    try:
        protect(str(hub.path), ["main"])
    finally:
        os.umask(before)
    state, hooks = hub.path / "forgepool/gate", hub.path / "hooks"
    modes = {path.name: path.stat().st_mode & 0o777 for path in (state, *state.iterdir(), hooks / "forgepool-kept")}
    assert modes == {
        **dict.fromkeys(("gate", "forgepool-kept"), 0o755),
        **dict.fromkeys(("targets", "digest"), 0o644),
        **dict.fromkeys(("token", "record", "config"), 0o600),
    }
    assert (hooks / "pre-receive").stat().st_mode & 0o777 == 0o755


def test_a_pushers_own_folder_of_hooks_does_not_lead_past_a_bare_hubs(hub: Hub, tmp_path: Path) -> None:
    protect(str(hub.path), ["main"])
    (tmp_path / "own").write_text("[core]\n\thooksPath = /nonexistent\n")
    work(hub)
    assert TOLD in push(hub, "origin", "HEAD:main", GIT_CONFIG_GLOBAL=str(tmp_path / "own")).stderr


def test_hooks_of_all_of_a_users_repositories_are_not_taken_for_the_hubs(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_text("[core]\n\thooksPath = ~/hooks\n")
    was = everything(hub)
    with pytest.raises(CannotProtect, match=r"core\.hooksPath is set to '~/hooks' for more than this repository"):
        protect(str(hub.path), ["main"])
    assert everything(hub) == was
    git(hub.path, "config", "core.hooksPath", "hooks")
    assert protect(str(hub.path), ["main"]).in_force


def test_what_cannot_be_read_lets_nothing_through(hub: Hub) -> None:
    protect(str(hub.path), ["main"])
    (hub.path / "forgepool/gate/digest").unlink()
    work(hub)
    assert "cannot be read" in push(hub, "origin", "HEAD:main").stderr
    protect(str(hub.path), ["main"])
    assert TOLD in push(hub, "origin", "HEAD:main").stderr


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("https://me:secret@forge.example/a.git", "https://forge.example/a.git: not on this host"),
        ("host:a.git", "not on"),
    ],
)
def test_a_hub_elsewhere_is_refused(where: str, why: str) -> None:
    with pytest.raises(CannotProtect, match=why):
        protect(where, ["main"])


@pytest.mark.parametrize("name", ["mian", "", "../x", "-d"])
def test_a_branch_that_is_not_there_is_refused_and_nothing_is_changed(hub: Hub, name: str) -> None:
    was = everything(hub)
    with pytest.raises(CannotProtect, match=r"there is no branch .*; branches are: main"):
        protect(str(hub.path), ["main", name])
    assert everything(hub) == was
