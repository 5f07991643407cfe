"""A queue and a clone that share only the hub: what the clone sees, and what it may ask."""

import hashlib
import json
import subprocess
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from kept_here import RUN, Hands, KeptHere, keep
from pydantic import JsonValue
from tiny_hub import TinyHub, make_hub

from forgepool.orchestrator.cli.queue.submit import _tell_reasons
from forgepool.orchestrator.cli.run import requests
from forgepool.orchestrator.decisions.queue.submissions import entry_name
from forgepool.orchestrator.journal.events import (
    CheckSent,
    EntryHeld,
    EntryRefused,
    EntrySubmitted,
    Event,
    LandingAnswered,
)
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.journal.store import Recorded, read
from forgepool.orchestrator.merge_queue import submit
from forgepool.orchestrator.merge_queue.hub_queue import HubQueue, _seconds_silent, explain_entry, show_board
from forgepool.orchestrator.merge_queue.submit import EntryProgress, Submitted, Wish, progress_of, push_submission
from forgepool.orchestrator.reports.queue_board import BEAT_S, GONE_S, RENEWED_S, BoardEntry
from forgepool.orchestrator.reports.queue_status import EntryStanding
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun, RunOptions
from forgepool.orchestrator.state.run import RunState
from forgepool.supervisor.messages.requests import CheckRequest
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.refs import board_ref, sign_ref, submission_ref
from forgepool.worktrees.git.git import CommitId
from forgepool.worktrees.hub.mirror import Mirror, open_mirror

BRANCH = "feature/base"


@dataclass(slots=True, kw_only=True)
class Place:
    """The queue, and a clone elsewhere."""

    hub: TinyHub
    hands: Hands
    loop: KeptHere
    mirror: Mirror
    queue: HubQueue

    def submit(self, branch: str, path: str = "", *, on: str = "") -> Submitted:
        name = entry_name(branch)
        commit = CommitId(self.hub.commit({path or f"{name}-file": "one\n"}, on=on or self.hub.tip))
        self.mirror.bring("refs/scratch/one")
        wish = Wish(
            what=branch,
            repo="",
            hub=None,
            target=None,
            name=None,
            klass="normal",
            needs=(),
            by="Ada",
            agent=None,
            family=(),
        )
        return push_submission(self.mirror, "main", commit, name, wish)

    def turn(self) -> None:
        self.hands.now += 0.5
        self.loop.turn()

    def end(self) -> None:
        """Answer every check and every landing."""
        for _ in range(12):
            self.turn()
            for request in list(self.hands.mail.values()):
                if isinstance(request, CheckRequest):
                    self.hands.told.append(self.hands.check(request, "true"))
                else:
                    self.hands.told.append(self.hands.land(request))

    def ask(self, do: str, entry: str = BRANCH, **more: str) -> str:
        """Push a request, let the queue read it, and return what the board then says about it."""
        request = PersonRequest.model_validate({"do": do, "task": entry, "by": "Grace", **more})
        assert self.queue.ask(request, wait_s=0.0) is None
        self.turn()
        self.turn()
        board = self.queue.look().board
        assert board is not None
        return [*board.answers.values()][-1].said

    def blob(self, text: str, name: str) -> None:
        at = self.hub.git("hash-object", "-w", "--stdin", text=text)
        self.hub.set({submission_ref("main", name): at})

    def events(self, kind: type[Event]) -> list[Event]:
        return [one.event for one in read(self.loop.folder) if isinstance(one.event, kind)]

    def progress(self, mine: Submitted) -> EntryProgress:
        return progress_of(self.queue, self.queue.look(), mine)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    hub = make_hub(tmp_path)
    settings = Settings(home=tmp_path / "home", cache=tmp_path / "cache", host="here")
    hands = Hands(hub=hub, settings=settings)
    folder = tmp_path / "home" / "runs" / RUN
    folder.mkdir(parents=True)
    loop = keep(folder, hands, _unheard)
    loop.notices.pause_s = 0.0
    mirror = open_mirror(str(hub.path), tmp_path / "elsewhere")
    made = Place(hub=hub, hands=hands, loop=loop, mirror=mirror, queue=HubQueue(mirror, "main"))
    yield made
    loop.journal.close()


def _unheard(state: RunState, recorded: object) -> None:
    assert isinstance(recorded, list | tuple) and all(isinstance(one, Recorded) for one in recorded)


def test_the_board_shows_each_entry_by_its_branchs_own_name(place: Place) -> None:
    place.submit(BRANCH)
    place.turn()
    board, silence = show_board(place.queue)
    assert silence == ""
    assert [(one.stand.entry, one.stand.by) for one in board.entries] == [(BRANCH, "Ada")]
    assert "feature--base" not in board.model_dump_json()
    assert explain_entry(place.queue, BRANCH).explained.startswith(f"'{BRANCH}' (")
    (taken,) = place.events(EntrySubmitted)
    assert isinstance(taken, EntrySubmitted) and (taken.task, taken.branch) == ("feature--base", BRANCH)


def test_a_plain_push_is_known_by_the_branchs_own_name_and_a_name_that_leads_elsewhere_is_not_taken(
    place: Place,
) -> None:
    commit = place.hub.commit({"plain": "one\n"}, on=place.hub.tip)
    tag = place.hub.tag(commit, {"Branch": "another/branch"})
    place.hub.set({submission_ref("main", "team/plain"): commit, submission_ref("main", "mine"): tag})
    place.turn()
    board, _ = show_board(place.queue)
    assert sorted(one.stand.entry for one in board.entries) == ["mine", "team/plain"]


def test_a_submission_is_followed_from_the_push_to_the_landing(place: Place) -> None:
    mine = place.submit(BRANCH)
    assert place.progress(mine).line == (
        "queued; no queue is serving main now, and it will be picked up when one starts"
    )
    place.turn()
    assert place.progress(mine).line.startswith(("queued; ", "testing; "))
    place.end()
    ended = place.progress(mine)
    assert (ended.outcome, ended.line) == ("landed", f"landed as {place.hub.tip[:12]}")
    again = place.submit("feature/late", on=place.hub.tip)
    place.hub.git("update-ref", "refs/heads/main", again.commit)
    place.turn()
    assert place.progress(again).outcome == "landed", "another push has brought it into the target"


def test_a_red_submission_is_returned_with_its_reason(place: Place) -> None:
    mine = place.submit("team/red", "bad-one")
    place.end()
    ended = place.progress(mine)
    assert ended.outcome == "returned" and "red" in ended.line
    assert ended.entry is not None and ended.entry.reasons[-1]["log_tail"] == "red"


def test_a_submission_that_is_not_taken_in_is_returned_with_why(place: Place) -> None:
    commit = CommitId(place.hub.commit({"x": "one\n"}, on=place.hub.tip))
    place.mirror.bring("refs/scratch/one")
    blank = {"what": "team/needy", "repo": "", "hub": None, "target": None, "name": None, "klass": "normal"}
    wish = Wish(**blank, needs=("nobody",), by="Ada", agent=None, family=())  # type: ignore[arg-type]
    mine = push_submission(place.mirror, "main", commit, "team--needy", wish)
    place.turn()
    ended = place.progress(mine)
    assert ended.outcome == "returned" and "it needs 'nobody'" in ended.line
    with pytest.raises(CannotRun, match=r"'team/needy' .* was not accepted: it needs 'nobody'"):
        explain_entry(place.queue, "team/needy")


def test_a_push_without_a_name_is_removed_and_told_so_that_others_can_submit(place: Place) -> None:
    """`git push hub x:refs/forgepool/for/main` makes a ref beside which git keeps no ref with a name below it."""
    place.hub.set({"refs/forgepool/for/main": place.hub.tip})
    place.turn()
    (refused,) = place.events(EntryRefused)
    assert isinstance(refused, EntryRefused)
    assert (refused.name, refused.commit) == ("unnamed", place.hub.tip)
    assert refused.why.endswith("push to refs/forgepool/for/main/NAME")
    place.submit(BRANCH)
    place.turn()
    assert len(place.events(EntrySubmitted)) == 1


def test_a_push_without_a_name_that_cannot_be_removed_is_told_once(place: Place) -> None:
    place.hub.set({"refs/forgepool/for/main": place.hub.tip})
    hook = place.hub.path / "hooks" / "update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ncase $3 in 000*) exit 1;; esac\n")
    hook.chmod(0o755)
    for _ in range(4):
        place.turn()
    (refused,) = place.events(EntryRefused)
    assert isinstance(refused, EntryRefused) and refused.name == "unnamed"
    assert refused.why.endswith("remove it in the hub: git update-ref -d refs/forgepool/for/main")


def test_a_commit_that_could_never_be_merged_is_returned_to_its_submitter(place: Place) -> None:
    """Git would refuse it at every try, as if the host were at fault."""
    hub, tree = place.hub, place.hub.git("rev-parse", f"{place.hub.tip}^{{tree}}")
    blob = bytes.fromhex(hub.git("hash-object", "-w", "--stdin", text="x"))
    make = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit-tree")
    submitted = {"orphan": hub.git(*make, "-m", "orphan", tree)}
    for number, name in enumerate((b"a/b", b".git", b"..", b"fine")):
        found = subprocess.run(
            ["git", "--git-dir", hub.path, "hash-object", "-t", "tree", "-w", "--stdin", "--literally"],
            input=b"100644 " + name + b"\0" + blob,
            capture_output=True,
            check=True,
        )
        odd = found.stdout.decode().strip()
        submitted[f"odd-{number}"] = hub.git(*make, "-m", "odd", "-p", hub.tip, odd)
    hub.set({submission_ref("main", name): at for name, at in submitted.items()})
    place.turn()
    why = {one.name: one.why for one in place.events(EntryRefused) if isinstance(one, EntryRefused)}
    assert why.pop("orphan").startswith("it has no commit in common with main")
    for number, name in enumerate(("a/b", ".git", "..")):
        assert why.pop(f"odd-{number}") == f"its tree has the name '{name}', which no checkout can have"
    assert not why
    assert [one.task for one in place.events(EntrySubmitted) if isinstance(one, EntrySubmitted)] == ["odd-3"]


def test_a_symbolic_ref_among_the_submissions_is_left_alone(place: Place) -> None:
    """Deleting it with a push would delete the branch it points to."""
    tip, link = place.hub.tip, submission_ref("main", "link")
    place.hub.git("symbolic-ref", link, "refs/heads/main")
    place.submit(BRANCH)
    place.turn()
    place.turn()
    place.hub.git("symbolic-ref", "-d", link)
    place.hub.git("symbolic-ref", link := "refs/forgepool/for/main", "refs/heads/main")
    place.turn()
    assert place.hub.tip == tip and place.hub.git("symbolic-ref", link) == "refs/heads/main"
    told = [(one.name, one.why) for one in place.events(EntryRefused) if isinstance(one, EntryRefused)]
    assert [name for name, _ in told] == ["link", "unnamed"], "each once"
    assert told[0][1].endswith("git symbolic-ref -d refs/forgepool/for/main/link")
    assert [one.task for one in place.events(EntrySubmitted) if isinstance(one, EntrySubmitted)] == ["feature--base"]


def test_a_board_that_says_landed_is_believed_of_nothing_that_the_target_does_not_have(place: Place) -> None:
    """Any person who may push to the hub can write a board."""
    mine = place.submit(BRANCH)
    place.turn()
    board = place.queue.look().board
    assert board is not None
    for landed_as in (mine.commit, place.hub.tip):
        entry = board.model_dump(mode="json")["entries"][0]
        entry["stand"] |= {"state": "landed", "code": "landed", "landed_as": landed_as}
        faked = {**board.model_dump(mode="json"), "entries": [entry]}
        at = place.hub.git("hash-object", "-w", "--stdin", text=json.dumps(faked))
        place.hub.set({board_ref("main"): at})
        progress = place.progress(mine)
        assert progress.outcome is None and "main does not have" in progress.line


@pytest.mark.parametrize("text", ["", "[]", "{", '{"gate": 1}', "x" * 6_000_000, '{"gate": "g", "entries": [{}]}'])
def test_a_board_that_cannot_be_read_is_none(place: Place, text: str) -> None:
    mine = place.submit(BRANCH)
    place.turn()
    place.hub.set({board_ref("main"): place.hub.git("hash-object", "-w", "--stdin", text=text)})
    assert "publishes no board" in place.progress(mine).line


def test_a_request_from_a_clone_holds_releases_reorders_and_withdraws(place: Place) -> None:
    place.submit(BRANCH)
    place.turn()
    assert place.ask("hold") == f"{BRANCH}: held by Grace"
    assert explain_entry(place.queue, BRANCH).stand.code == "held"
    assert place.ask("hold") == f"there is nothing to hold: '{BRANCH}' is testing"
    assert place.ask("reclass", text="low") == f"{BRANCH}: priority is now low"
    assert place.ask("release") == f"{BRANCH}: released by Grace"
    assert place.ask("cancel") == f"{BRANCH}: withdrawn"
    assert place.ask("retry").startswith(f"{BRANCH}: ")
    held = [one.held for one in place.events(EntryHeld) if isinstance(one, EntryHeld)]
    assert held == [True, False]
    assert place.hub.git("for-each-ref", "refs/forgepool/for") == ""


def test_a_request_about_no_entry_is_refused_where_it_is_typed(place: Place) -> None:
    place.submit(BRANCH)
    place.turn()
    with pytest.raises(CannotRun, match=f"the queue of main has no entry 'nobody'; the latest are: {BRANCH}"):
        place.queue.ask(PersonRequest(do="cancel", task="nobody"))


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "{}",
        '{"do": "grant", "task": "feature/base", "grants": ["**"]}',
        '{"do": "pause", "task": "feature/base"}',
        '{"do": "approve", "task": "feature/base", "by": "Grace"}',
        '{"do": "hold"}',
        '{"do": "hold", "task": ""}',
        '{"do": "hold", "task": "feature/base", "by": "' + "x" * 20_000 + '"}',
    ],
)
def test_what_may_not_be_asked_by_a_push_changes_nothing_and_is_answered(place: Place, text: str) -> None:
    place.submit(BRANCH)
    place.turn()
    before = len(place.events(CheckSent))
    place.blob(text, "request-strange")
    place.turn()
    state, board = place.loop.state, place.queue.look().board
    assert board is not None and not state.paused and not state.held
    assert state.submitted["feature--base"].grants == () and state.tasks["feature--base"].review.person is None
    (refused,) = board.refused
    assert refused.name == "request-strange" and "neither a commit nor a request" in refused.why
    assert len(place.events(CheckSent)) == before
    assert place.hub.git("for-each-ref", "refs/forgepool/for") == ""


def test_a_request_for_another_commit_than_the_entrys_changes_nothing(place: Place) -> None:
    place.submit("team/red", "bad-one")
    place.end()
    assert "is another commit by now" in place.ask("retry", "team/red", candidate="0" * 40)
    assert place.loop.state.submitted["team--red"].revision == 1


@pytest.mark.parametrize("do", ["cancel", "hold"])
def test_a_request_left_for_a_sleeping_queue_is_not_about_what_was_submitted_after_it(place: Place, do: str) -> None:
    place.submit(BRANCH)
    place.turn()
    assert place.queue.ask(PersonRequest.model_validate({"do": do, "task": BRANCH}), wait_s=0.0) is None
    mended = place.submit(BRANCH, "mended")
    place.turn()
    place.turn()
    state, board = place.loop.state, place.queue.look().board
    assert state.submitted["feature--base"].commit == mended.commit
    assert state.tasks["feature--base"].phase in ("queued", "testing") and not state.held
    assert board is not None
    (answer,) = board.answers.values()
    assert not answer.done and "is another commit by now" in answer.said


def test_a_request_about_what_is_not_taken_in_yet_is_about_that_commit(place: Place) -> None:
    place.submit(BRANCH)
    place.turn()
    place.submit(BRANCH, "mended")
    assert place.ask("hold") == f"{BRANCH}: held by Grace", "the commit that lies there, not the one on the board"


def test_with_no_queue_at_work_a_withdrawal_takes_the_submission_away_and_other_requests_wait(place: Place) -> None:
    mine = place.submit(BRANCH)
    board, silence = show_board(place.queue)
    assert silence == "no queue is serving main now"
    assert [(one.stand.entry, one.stand.state) for one in board.entries] == [(BRANCH, "submitted")]
    assert place.queue.ask(PersonRequest(do="hold", task=BRANCH)) is None
    reply = place.queue.ask(PersonRequest(do="cancel", task=BRANCH))
    assert reply is not None and (reply.done, reply.said) == (True, f"{BRANCH}: withdrawn before a queue picked it up")
    assert place.hub.git("for-each-ref", mine.ref) == ""
    place.turn()
    assert place.loop.state.submitted == {}


def test_what_is_not_taken_in_yet_stands_before_what_has_ended(place: Place) -> None:
    place.submit("first")
    place.end()
    place.submit(BRANCH)
    board, _ = show_board(place.queue)
    assert [(one.stand.entry, one.stand.state) for one in board.entries] == [(BRANCH, "submitted"), ("first", "landed")]


def test_a_request_left_for_a_serving_queue_has_the_branchs_own_name(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place.submit(BRANCH)
    place.turn()
    options = RunOptions(
        run=RUN, hub=str(place.hub.path), target="main", workers=1, plan_file="", plan_file_digest="", gate=True
    )
    kept = KeptRun(place.loop.folder, options, place.loop.course.plan, place.loop.course)
    monkeypatch.setattr(requests, "find_run_with", lambda *_: kept)
    requests.ask(RUN, PersonRequest(do="approve", task=entry_name(BRANCH), by="Ada"))
    assert capsys.readouterr().out.startswith(f"asked run {RUN} to approve {BRANCH}; ")


def test_the_log_of_a_returned_branch_has_no_colours_and_what_to_do_comes_last(
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = EntryStanding.__dataclass_fields__
    stand = EntryStanding(**{name: 1 if name == "revision" else None if name == "place" else "" for name in place})
    reason: dict[str, JsonValue] = {"log_tail": "\x1b[31mFAILED\x1b[0m test_a.py::test_a\n"}
    _tell_reasons(BoardEntry(stand=stand, explained="'b' was returned.\nnext: push", reasons=(reason,)))
    assert capsys.readouterr().out == "    | FAILED test_a.py::test_a\n'b' was returned.\nnext: push\n"


@pytest.mark.parametrize("had_queue", [False, True])
def test_who_waits_is_told_when_somebody_withdraws_what_no_queue_has_taken_in(place: Place, had_queue: bool) -> None:
    if had_queue:
        place.submit("another")
        place.turn()
        _beat_of(place, time.time() - 2 * GONE_S)
    mine = place.submit(BRANCH)
    elsewhere = HubQueue(place.mirror, "main")
    assert progress_of(elsewhere, elsewhere.look(), mine).outcome is None
    reply = HubQueue(place.mirror, "main").ask(PersonRequest(do="cancel", task=BRANCH))
    assert reply is not None and reply.done
    ended = progress_of(elsewhere, elsewhere.look(), mine)
    assert (ended.outcome, ended.line) == ("returned", "returned; it was withdrawn before a queue picked it up")


def test_who_waits_is_told_when_another_submission_takes_the_place_of_one_that_no_queue_has_taken_in(
    place: Place,
) -> None:
    mine = place.submit(BRANCH)
    later = place.submit(BRANCH, "mended")
    ended = place.progress(mine)
    assert (ended.outcome, ended.line) == ("returned", "returned; another submission replaced it")
    assert place.progress(later).outcome is None


def test_a_board_that_is_late_is_no_withdrawal(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forgepool.orchestrator.merge_queue.submit.LOOK_S", 0.0)
    mine = place.submit(BRANCH)
    place.turn()
    now = place.queue.look()
    assert now.board is not None
    late = replace(now, board=now.board.model_copy(update={"entries": (), "in_line": 0}))
    looks = iter([late] * (submit.LOOKS_GONE - 1) + [now] + [late] * submit.LOOKS_GONE)
    monkeypatch.setattr(HubQueue, "look", lambda _: next(looks))
    told = [one.outcome for one in submit.follow_entry(place.queue, mine)]
    assert told == [None, "returned"]


def test_who_waits_behind_those_that_the_board_shows_still_waits(place: Place) -> None:
    mine = place.submit(BRANCH)
    place.turn()
    look = place.queue.look()
    assert look.board is not None
    cut = replace(look, board=look.board.model_copy(update={"entries": ()}))
    assert progress_of(place.queue, cut, mine).line == "queued; it is behind the entries that the board shows"


def test_a_queue_that_beats_no_more_is_told_apart_from_one_at_work(place: Place) -> None:
    """The time of day and the board's date are compared. A clock that is slightly wrong raises no alarm."""
    noon = 1_800_000_000.0 // 86400 * 86400 + 43_200
    beat = int(noon // BEAT_S) % (86400 // BEAT_S)
    assert _seconds_silent(beat, noon, noon + 20) == BEAT_S
    assert _seconds_silent(beat, noon, noon - 90) == 90, "the queue's clock is ahead"
    assert _seconds_silent(beat, noon, noon + 3600) == 3600
    assert _seconds_silent(0, noon, noon + 43_200 + 30) == 30, "over midnight"
    assert _seconds_silent(beat, noon, noon + 86_400) > RENEWED_S, "the same time of another day"
    place.submit(BRANCH)
    place.turn()
    assert place.queue.look().silence == ""
    _beat_of(place, time.time() - 2 * GONE_S)
    assert HubQueue(place.mirror, "main").look().silence.startswith("no queue is serving main now; one was last heard")
    _beat_of(place, time.time() - GONE_S / 2)
    assert HubQueue(place.mirror, "main").look().silence.startswith("the queue of main was last heard from at ")
    assert place.queue.look().silence == "", "it was seen to beat"


def _beat_of(place: Place, at: float) -> None:
    sign = {"gate": RUN, "host": "here", "beat": int(at // BEAT_S) % (86400 // BEAT_S)}
    place.hub.set({sign_ref("main"): place.hub.git("hash-object", "-w", "--stdin", text=json.dumps(sign))})


def test_a_queue_pushes_its_board_only_where_something_on_it_has_changed(place: Place) -> None:
    place.submit(BRANCH)
    place.end()
    at = place.hub.ref(board_ref("main"))
    for _ in range(5):
        place.turn()
    assert place.hub.ref(board_ref("main")) == at


def test_an_empty_queue_packs_what_lies_loose(place: Place) -> None:
    """A queue has no end at which its hub and its mirror would be packed."""
    places = (place.hub.path, place.loop.mirror.path)
    place.submit(BRANCH)
    for folder in places:
        for number in range(510):
            content = b"blob 3\0%03d" % number
            name = hashlib.sha1(content).hexdigest()
            (folder / "objects" / name[:2]).mkdir(exist_ok=True)
            (folder / "objects" / name[:2] / name[2:]).write_bytes(zlib.compress(content))
    place.turn()
    assert all(len(list(folder.glob("objects/??/*"))) > 510 for folder in places)
    place.end()
    assert place.events(LandingAnswered)
    of_hub, of_mirror = (len(list(folder.glob("objects/??/*"))) for folder in places)
    assert of_hub < 50 and list(place.hub.path.glob("objects/pack/*.mtimes")), "by these a person's gc decides"
    assert of_mirror < 50
