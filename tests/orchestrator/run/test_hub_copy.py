"""A journal's copy in the hub is whole, moves by compare-and-swap alone, and has in time what no other ref tells."""

import shutil
import sys
from pathlib import Path

import pytest
from plans import answered, begun, check_sent, course, intended, queued, sent, task, verdict

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal import inbox
from forgepool.orchestrator.journal.events import Event, RunPaused
from forgepool.orchestrator.journal.hub_copy import HubCopy, LeaseLost, give_back, look, open_copy, read_copy
from forgepool.orchestrator.journal.store import Journal, JournalUnreadable, read, read_rows
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.loop import Loop
from forgepool.orchestrator.run.run_folder import RunOptions
from forgepool.orchestrator.run.sending import Wishes
from forgepool.orchestrator.run.takeover import find_run
from forgepool.orchestrator.run.transport import Link
from forgepool.workers.queue.broker import LANDINGS, Redis, count_waiting, use_broker
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.refs import journal_ref
from forgepool.worktrees.git.git import CommitId, Git, GitFailed
from forgepool.worktrees.hub.mirror import Mirror, open_mirror
from forgepool.worktrees.hub.push import RefUpdate

RUN = "r-1"


@pytest.fixture
def hub(tmp_path: Path) -> Git:
    hub = Git(git_dir=tmp_path / "hub.git")
    hub.run("init", "--quiet", "--bare", str(hub.git_dir))
    return hub


def _mirror(hub: Git, cache: Path) -> Mirror:
    return open_mirror(str(hub.git_dir), cache)


def _copy(hub: Git, folder: Path, *, begun: bool = False) -> HubCopy:
    Journal(folder).close()
    return open_copy(_mirror(hub, folder / "cache"), folder, RUN, Settings(host=folder.name), begun=begun)


def _keep(folder: Path, copy: HubCopy, *events: Event) -> None:
    journal = Journal(folder)
    journal.append(events, at=1.5)
    journal.close()
    copy.note(events)


def _loop(copy: HubCopy, redis: Redis, *events: Event) -> Loop:
    of = course(task("a"))
    return Loop(
        course=of,
        state=begun(of, *events),
        journal=Journal(copy.folder),
        folder=copy.folder,
        mirror=copy.mirror,
        link=Link(redis, RUN, 60.0),
        parts=None,
        wishes=Wishes(),
        listener=lambda state, recorded: None,
        copy=copy,
    )


def _use_key(monkeypatch: pytest.MonkeyPatch, key: str | None) -> None:
    if key is None:
        monkeypatch.delenv("FORGEPOOL_FLEET_KEY", raising=False)
    else:
        monkeypatch.setenv("FORGEPOOL_FLEET_KEY", key)


def _is_owed(copy: HubCopy) -> bool:
    before = copy.head
    copy.push_owed()
    return copy.head != before


def test_another_machine_reads_the_same_files_and_events(hub: Git, tmp_path: Path) -> None:
    here = tmp_path / "here"
    copy = _copy(hub, here)
    (here / "plan.json").write_text('{"name": "plän\\n"}')
    _keep(here, copy, sent("a"), RunPaused(why='"quotes"\n\nand lines ü'))
    copy.push()
    _keep(here, copy, answered("a", paths=["x"]))
    copy.push()
    copy.push(held=False)

    there = _mirror(hub, tmp_path / "there")
    seen = look(there, RUN)
    assert seen is not None and (seen.lease.host, seen.lease.held, seen.lease.upto) == ("here", False, 3)
    copied = read_copy(there, RUN, seen.at)
    assert copied.files == {"plan.json": (here / "plan.json").read_text()}
    assert copied.rows == list(read_rows(here))
    journal = Journal(tmp_path / "restored")
    journal.adopt(copied.rows)
    journal.close()
    assert list(read(tmp_path / "restored")) == list(read(here))


@pytest.mark.parametrize(
    ("event", "owed"),
    [
        (intended("a"), True),
        (e.TaskCancelled(task="a"), True),
        (e.BudgetSet(budget={"usd": 1.0}), True),
        (sent("a").model_copy(update={"reserved_usd": 1.0}), True),
        (e.MoneyGranted(task="a", attempt=1, reserved_usd=2.0), True),
        (sent("a"), False),
        (check_sent("a"), False),
        (answered("a"), False),
    ],
)
def test_what_no_ref_tells_again_is_copied_before_anything_follows(
    event: Event, owed: bool, hub: Git, tmp_path: Path
) -> None:
    copy = _copy(hub, tmp_path / "here")
    copy.push()
    _keep(tmp_path / "here", copy, event)
    assert _is_owed(copy) == owed
    assert not _is_owed(copy), "once"


def test_whoever_moved_the_ref_last_holds_the_run(hub: Git, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    copy = _copy(hub, one)
    copy.push()
    seen = look(copy.mirror, RUN)
    assert seen is not None
    with pytest.raises(LeaseLost, match="taken over by one"):
        _copy(hub, other, begun=True)
    _copy(hub, one, begun=True).push()
    with pytest.raises(LeaseLost, match="taken over by one"):
        copy.push()


def test_no_landing_is_sent_by_one_whose_run_was_taken_over(
    hub: Git, tmp_path: Path, redis: Redis, redis_url: str
) -> None:
    """It finds out with its intent, however long its lease lasts."""
    here = tmp_path / "here"
    copy = _copy(hub, here)
    copy.push()
    checked = e.CheckAnswered(task="a", result=verdict("a"))
    loop = _loop(copy, redis, sent("a"), answered("a"), queued("a"), check_sent("a"), checked)
    use_broker(redis_url)
    open_copy(copy.mirror, here, RUN, Settings(host="taker"), begun=True).push()
    loop.record([intended("a")])
    (landing,) = loop.state.outstanding().values()
    with pytest.raises(LeaseLost, match="taken over by taker"):
        loop._send(landing, resent=False)
    assert count_waiting(redis, LANDINGS) == 0
    loop.journal.close()


def test_a_copy_that_is_gone_from_the_hub_is_not_made_anew(hub: Git, tmp_path: Path) -> None:
    """The run may have ended elsewhere, and its markers with it: nothing would keep a task from landing twice."""
    copy = _copy(hub, tmp_path / "one")
    copy.push()
    hub.run("update-ref", "-d", journal_ref(RUN))
    with pytest.raises(LeaseLost, match="has ended on another machine"):
        copy.push()
    with pytest.raises(LeaseLost, match="has ended on another machine"):
        _copy(hub, tmp_path / "one", begun=True)


@pytest.mark.parametrize("removed", [True, False])
def test_the_holder_of_an_ended_run_reopens_it(removed: bool, hub: Git, tmp_path: Path) -> None:
    """Also where the process ended, or the hub was away, before the copy could be removed."""
    here = tmp_path / "here"
    copy = _copy(hub, here)
    copy.push()
    copy.push(held=False)
    give_back(here)
    if removed:
        hub.run("update-ref", "-d", journal_ref(RUN))
    _keep(here, copy, e.TaskRetried(task="a"))
    again = _copy(hub, here, begun=True)
    again.push()
    assert (again.lease.holder, again.lease.upto) == (copy.lease.holder, 1)


def test_a_persons_request_outlasts_the_folder_it_was_left_in(hub: Git, tmp_path: Path) -> None:
    """The run's former host takes it back, and its folder is replaced by the copy."""
    one, other = (Settings(home=tmp_path / name, cache=tmp_path / "cache", host=name) for name in ("one", "other"))
    options = RunOptions(run=RUN, hub=str(hub.git_dir), target="t", workers=1, plan_file="p", plan_file_digest="")
    kept = run_folder.keep(one, options, course(task("a")).plan)
    copy = _copy(hub, kept.folder)
    _keep(kept.folder, copy, RunPaused(why="stopped"))
    copy.push(held=False)
    hub.run("update-ref", "refs/heads/main", journal_ref(RUN))
    find_run(other, RUN, str(hub.git_dir), take_over=False, tell=print)
    inbox.leave(kept.folder, inbox.PersonRequest(do="cancel", task="a"))
    again = find_run(one, RUN, None, take_over=False, tell=print)
    assert [request.do for _, request in inbox.waiting(again.folder)] == ["cancel"]
    assert list((one.home / "replaced").iterdir()), "the folder was replaced"


def test_a_push_without_an_answer_is_no_loss_of_the_lease(hub: Git, tmp_path: Path) -> None:
    here = tmp_path / "here"
    copy = _copy(hub, here)
    copy.push()
    _keep(here, copy, intended("a"))
    # A hub that accepts the commit, and whose answer gets lost.
    head = copy.head
    made, _ = copy._make(held=True)
    copy.mirror.push([RefUpdate(ref=journal_ref(RUN), new=made, expected=head)])
    _keep(here, copy, intended("b"))
    copy.push_owed()
    assert hub.text("rev-parse", f"{journal_ref(RUN)}~1") == made
    seen = look(copy.mirror, RUN)
    assert seen is not None and [row.number for row in read_copy(copy.mirror, RUN, seen.at).rows] == [1, 2]


@pytest.mark.parametrize("arrived", [True, False])
def test_a_copy_goes_on_from_a_mirror_that_was_made_anew(arrived: bool, hub: Git, tmp_path: Path) -> None:
    """Also where the former mirror had a commit whose push had no answer, and did or did not arrive."""
    here = tmp_path / "here"
    copy = _copy(hub, here)
    copy.push()
    _keep(here, copy, intended("a"))
    made, _ = copy._make(held=True)
    if arrived:
        copy.mirror.push([RefUpdate(ref=journal_ref(RUN), new=made, expected=copy.head)])
    shutil.rmtree(copy.mirror.path)
    # Made while the hub has no such commits, as where no objects are borrowed.
    away = hub.git_dir.rename(tmp_path / "away")
    hub.run("init", "--quiet", "--bare", str(hub.git_dir))
    _mirror(hub, here / "cache")
    shutil.rmtree(hub.git_dir)
    away.rename(hub.git_dir)
    copy.push_owed()
    seen = look(copy.mirror, RUN)
    assert seen is not None and seen.at == copy.head
    assert [row.number for row in read_copy(copy.mirror, RUN, seen.at).rows] == [1]


def test_a_commit_that_was_thought_lost_and_arrives_is_built_on(hub: Git, tmp_path: Path) -> None:
    here = tmp_path / "here"
    copy = _copy(hub, here)
    copy.push()
    _keep(here, copy, intended("a"))
    made, _ = copy._make(held=True)
    copy.mirror.push([RefUpdate(ref=journal_ref(RUN), new=made, expected=copy.head)])
    copy._made = None
    _keep(here, copy, intended("b"))
    copy.push_owed()
    assert hub.text("rev-parse", f"{journal_ref(RUN)}~1") == made


def test_a_run_hears_people_while_the_hub_is_away(hub: Git, tmp_path: Path, redis: Redis, redis_url: str) -> None:
    copy = _copy(hub, tmp_path / "here")
    copy.push()
    use_broker(redis_url)
    loop = _loop(copy, redis, sent("a"))
    hub.git_dir.rename(tmp_path / "away")
    inbox.leave(copy.folder, inbox.PersonRequest(do="cancel", task="a"))
    copy._due = 0.0
    loop._turn()
    assert loop.state.tasks["a"].phase == "cancelled"
    loop.journal.close()


def test_a_copy_that_failed_is_pushed_again_some_time_after_its_failure(hub: Git, tmp_path: Path) -> None:
    """However long it took to fail: between two of them the run hears its hosts."""
    copy = _copy(hub, tmp_path / "here")
    hook, at = hub.git_dir / "hooks" / "pre-receive", tmp_path / "at"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{sys.executable} -c 'import time; print(time.monotonic())' > {at}\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(GitFailed, match="refuses"):
        copy.push()
    assert copy._due > float(at.read_text()) + 5


def test_a_push_that_outlives_its_process_does_not_take_the_run_from_the_next(hub: Git, tmp_path: Path) -> None:
    here = tmp_path / "here"
    former = _copy(hub, here)
    former.push()
    _keep(here, former, intended("a"))
    made, _ = former._make(held=True)
    copy = _copy(hub, here, begun=True)
    former.mirror.push([RefUpdate(ref=journal_ref(RUN), new=made, expected=former.head)])
    _keep(here, copy, intended("b"))
    copy.push()
    assert copy.head is not None and copy.lease.process != former.lease.process
    assert hub.text("rev-parse", f"{journal_ref(RUN)}~1") == made
    assert [row.number for row in read_copy(copy.mirror, RUN, copy.head).rows] == [1, 2]


def test_what_is_owed_stays_owed_while_the_hub_is_away(hub: Git, tmp_path: Path) -> None:
    copy = _copy(hub, tmp_path / "here")
    copy.push()
    _keep(tmp_path / "here", copy, intended("a"))
    away = hub.git_dir.rename(tmp_path / "away")
    for _ in range(2):
        with pytest.raises(GitFailed):
            copy.push_owed()
    away.rename(hub.git_dir)
    assert _is_owed(copy)


def test_a_password_in_the_hubs_address_is_not_copied(hub: Git, tmp_path: Path) -> None:
    copy = _copy(hub, tmp_path / "here")
    (tmp_path / "here" / "options.json").write_text('{"hub": "https://me:secret@host/hub.git"}')
    written = copy.mirror
    copy.mirror = Mirror(path=written.path, hub="https://me:secret@host/hub.git")
    made, _ = copy._make(held=True)
    said = written.git.text("cat-file", "commit", made)
    assert "host/hub.git" in said and "secret" not in said


_KEY, _OTHER_KEY = "k" * 32, "o" * 32


@pytest.mark.parametrize(
    ("written", "reading", "refused"),
    [
        (_KEY, _KEY, None),
        (None, _KEY, "is refused: it is not signed; set FORGEPOOL_FLEET_KEY"),
        (_KEY, None, r"is refused: it is signed, and host \S+ has no key"),
        (_OTHER_KEY, _KEY, "is refused: it is signed with another key, or was changed"),
    ],
)
def test_a_copy_is_continued_elsewhere_only_with_the_key_it_was_written_with(
    written: str | None,
    reading: str | None,
    refused: str | None,
    hub: Git,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its own host, which has the journal itself, goes on with another key."""
    here = tmp_path / "here"
    copy = _copy(hub, here)
    _use_key(monkeypatch, written)
    copy.push()
    _keep(here, copy, e.TaskCancelled(task="a"))
    copy.push()
    _use_key(monkeypatch, reading)
    seen = look(copy.mirror, RUN)
    assert seen is not None and seen.lease.upto == 1
    if refused is None:
        assert len(read_copy(copy.mirror, RUN, seen.at).rows) == 1
    else:
        with pytest.raises(JournalUnreadable, match=refused):
            read_copy(copy.mirror, RUN, seen.at)
    _copy(hub, here, begun=True).push()


def test_a_signed_commit_proves_nothing_without_those_before_it(
    hub: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _use_key(monkeypatch, _KEY)
    copy = _copy(hub, tmp_path / "here")
    _keep(tmp_path / "here", copy, intended("a"))
    copy.push()
    copy.push()
    renewal = hub.text("cat-file", "commit", journal_ref(RUN))
    headers = [line for line in renewal.split("\n") if not line.startswith("parent ")]
    alone = copy.mirror.git.text(
        "hash-object", "-t", "commit", "-w", "--stdin", stdin="\n".join([*headers, ""]).encode()
    )
    with pytest.raises(JournalUnreadable, match="was changed"):
        read_copy(copy.mirror, RUN, CommitId(alone))


def _rewrite(hub: Git, old: str, new: str) -> CommitId:
    """Change the text of the copy's last commit, as anyone who may push there can."""
    text = hub.text("cat-file", "commit", journal_ref(RUN))
    assert text.count(old) == 1
    changed = f"{text.replace(old, new)}\n".encode()
    commit = CommitId(hub.text("hash-object", "-t", "commit", "-w", "--stdin", stdin=changed))
    hub.run("update-ref", journal_ref(RUN), commit)
    return commit


def test_a_copy_that_lacks_an_event_is_not_continued(hub: Git, tmp_path: Path) -> None:
    copy = _copy(hub, tmp_path / "here")
    _keep(tmp_path / "here", copy, sent("a"), RunPaused(why="w"), intended("a"))
    copy.push()
    (line,) = (line for line in hub.text("cat-file", "commit", journal_ref(RUN)).splitlines() if line.startswith("[2,"))
    at = _rewrite(hub, f"{line}\n", "")
    there = _mirror(hub, tmp_path / "there")
    look(there, RUN)
    with pytest.raises(JournalUnreadable, match=r"hub\.git lacks events of the run$"):
        read_copy(there, RUN, at)


def test_a_copy_writes_no_file_outside_the_runs_folder(hub: Git, tmp_path: Path) -> None:
    one, other = (Settings(home=tmp_path / name, cache=tmp_path / "cache", host=name) for name in ("one", "other"))
    options = RunOptions(run=RUN, hub=str(hub.git_dir), target="t", workers=1, plan_file="p", plan_file_digest="")
    kept = run_folder.keep(one, options, course(task("a")).plan)
    _copy(hub, kept.folder).push(held=False)
    hub.run("update-ref", "refs/heads/main", journal_ref(RUN))
    for name in ("../../out.json", "plan.py"):
        at = hub.text("rev-parse", journal_ref(RUN))
        _rewrite(hub, '["plan.json", ', f'["{name}", ')
        with pytest.raises(JournalUnreadable, match=rf"has a file '{name}', as no run has$"):
            find_run(other, RUN, str(hub.git_dir), take_over=False, tell=print)
        hub.run("update-ref", journal_ref(RUN), at)
    assert not list(tmp_path.rglob("out.json")) and not list(other.home.iterdir())


@pytest.mark.parametrize("message", ["Journal\n\nnot a lease\n", "one line", "Journal\n\n{}\n[1, 2]\n"])
def test_a_ref_with_something_else_is_refused_in_one_sentence(message: str, hub: Git, tmp_path: Path) -> None:
    me = {name: "t" for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL")}
    commit = CommitId(hub.text("commit-tree", hub.text("mktree", stdin=b""), stdin=message.encode(), env=me))
    hub.run("update-ref", journal_ref(RUN), commit)
    with pytest.raises(JournalUnreadable, match="is no journal that this version can read"):
        look(_mirror(hub, tmp_path / "cache"), RUN)
