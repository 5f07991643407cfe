"""A running merge queue: what people submit, withdraw and ask for, and the outcome."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from gate_kit import GateOf, kept_gate
from kit import Repository, events_of

from forgepool.orchestrator.decisions.queue.submissions import entry_name
from forgepool.orchestrator.journal import events as e

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kept(redis_program: str) -> Iterator[GateOf]:
    """Yield one queue for the module, because a daemon takes seconds to start."""
    with kept_gate() as gate:
        yield gate


@pytest.fixture
def gate(kept: GateOf) -> Iterator[GateOf]:
    yield kept
    kept.tidy()


def test_what_is_submitted_by_hand_lands_and_leaves_no_refs(gate: GateOf) -> None:
    """Submit a commit with the command. That commit lands, and `explain` reports its author and landing."""
    before = gate.tip()
    commit = gate.commit({"e/first": "ok\n"}, ref="refs/heads/topic/first")
    words = ("--repo", gate.hub.path, "--hub", gate.hub.path, "--name", "first", "--by", "Ann", "--json")
    said = gate.machine.run("gate", "submit", "topic/first", *words)
    assert said.status == 0, said.err
    assert said.answer["commit"] == commit
    gate.wait_landed("first")
    assert gate.landed(after=before) == ["first"]
    gate.waits_for_no_refs()
    told = gate.explained("first")
    assert (told["state"], told["by"], told["landed_as"]) == ("landed", "Ann", gate.tip())
    gate.hub.git("update-ref", "-d", "refs/heads/topic/first")


def test_three_green_behind_each_other_land_in_one_move_with_a_commit_each(gate: GateOf) -> None:
    """The slow first check does not delay those behind it, and the target moves once."""
    before, mark = gate.tip(), gate.mark()
    with gate.held("n1", unless="n3"):
        for name in ("n1", "n2", "n3"):
            gate.push(name)
            gate.phase(name, "queued", "testing")
        gate.wait_landed("n1", "n2", "n3", since=mark)
    assert (("n1", "n2"), ("n3",)) in gate.trials(mark)
    assert gate.moves(mark) == [("n1", "n2", "n3")]
    assert gate.landed(after=before) == ["n1", "n2", "n3"]


def test_a_need_is_submitted_first_or_the_sentence_says_so(gate: GateOf) -> None:
    """An entry that needs an unknown name is refused, and `explain` repeats the reason."""
    gate.give("lonely", gate.commit({"e/lonely": "ok\n"}), Needs="nobody")
    refused = gate.wait_for(e.EntryRefused, of="lonely")
    assert refused.why == "it needs 'nobody', and no entry of that name was submitted to main; submit that first"
    said = gate.machine.run("gate", "explain", "lonely", "--gate", gate.run)
    assert (said.status, refused.why in said.err.replace("\n", " ")) == (2, True), said.err


def test_who_needs_another_of_the_same_moment_comes_after_it(gate: GateOf) -> None:
    """The order of the names does not matter, and the need may be written as the branch's name."""
    before = gate.tip()
    first = gate.commit({"e/z-first": "ok\n"})
    then = gate.tagged("a-then", gate.commit({"e/a-then": "ok\n"}), Needs="z/first")
    gate.give_all({"a-then": then, "z/first": first})
    gate.wait_landed("a-then", "z--first")
    assert gate.landed(after=before) == ["z--first", "a-then"]


def test_needs_in_a_circle_are_refused(gate: GateOf) -> None:
    with gate.held("one"):
        gate.push("one")
        gate.phase("one", "testing")
        gate.give("two", gate.commit({"e/two": "ok\n"}), Needs="one")
        gate.phase("two", "queued", "testing")
        gate.give("one", gate.commit({"e/one": "ok too\n"}), Needs="two")
        why = gate.wait_for(e.EntryRefused, of="one").why
        assert why == "it needs 'two', which needs it in turn; submit what belongs together as one branch"
    gate.wait_landed("one", "two")


def test_who_needs_what_is_withdrawn_is_withdrawn_with_its_name(gate: GateOf) -> None:
    """Withdraw the lower entry while its check runs. The upper one is blocked, and the reason names the lower one."""
    base = gate.commit({"e/base": "ok\n"})
    with gate.held("base"):
        gate.give("base", base)
        gate.phase("base", "testing")
        gate.give("upper", gate.commit({"e/upper": "ok\n"}, base=base), Needs="base")
        gate.phase("upper", "queued", "testing")
        gate.asks("cancel", "base")
        gate.phase("upper", "blocked")
    assert gate.stand("upper").why == "needs 'base', which did not land"
    assert gate.stand("base").state == "withdrawn"


def test_a_check_that_nobody_wants_to_know_of_is_ended(gate: GateOf) -> None:
    """Withdraw an entry while its check runs. The check's processes end, and the next entry uses the slot."""
    with gate.held("gone"):
        gate.push("gone")
        gate.under_test("gone")
        gate.asks("cancel", "gone")
        gate.phase("gone", "cancelled")
        gate.wait(lambda: not gate.checking(), "the end of its processes")
        gate.push("next")
        gate.wait_landed("next")
    assert "gone" not in gate.here()


def test_the_other_of_two_in_a_car_goes_on_without_the_withdrawn(gate: GateOf) -> None:
    mark = gate.mark()
    names = [f"c{n}" for n in range(8)]
    gate.asks("pause")
    for name in names:
        gate.push(name)
    for name in names:
        gate.phase(name, "queued")
    with gate.held(*names):
        gate.asks("go")
        car = gate.wait(lambda: next((car for _, car in gate.trials(mark) if len(car) > 1), None), "a car of several")
        gate.asks("cancel", car[0])
        gate.phase(car[0], "cancelled")
    rest = [one for one in names if one != car[0]]
    gate.wait_landed(*rest, since=mark)
    assert car[0] not in gate.here()


def test_what_conflicts_goes_alone_and_is_told_of_its_files(gate: GateOf) -> None:
    """The entry that conflicts with a landed one is returned with the file's name. The others land."""
    base = gate.tip()
    gate.give("left", gate.commit({"e/left": "ok\n", "shared": "left\n"}, base=base))
    gate.phase("left", "queued", "testing", "landing", "landed")
    gate.give("right", gate.commit({"e/right": "ok\n", "shared": "right\n"}, base=base))
    gate.push("beside", base=base)
    gate.wait_landed("left", "beside")
    gate.phase("right", "failed")
    reason = gate.state().tasks["right"].reasons[-1]
    assert (reason.kind, reason.paths, reason.conflicting_entry) == ("conflict", ("shared",), "left")
    assert "shared" in gate.paragraph("right")


def test_two_that_are_red_together_return_the_younger_with_the_others_name(gate: GateOf) -> None:
    """Each is green alone; the older one lands."""
    base, before = gate.tip(), gate.tip()
    with gate.held("older", unless="younger"):
        gate.push("older", base=base)
        gate.phase("older", "testing")
        gate.push("younger", "without older", base=base)
        gate.phase("younger", "testing", "queued", "failed")
    gate.wait_landed("older")
    gate.phase("younger", "failed")
    assert gate.state().tasks["younger"].reasons[-1].conflicting_entry == "older"
    assert gate.landed(after=before) == ["older"]


def test_another_revision_takes_the_place_of_one_under_test(gate: GateOf) -> None:
    """The first revision never lands, whatever its check answers."""
    with gate.held("again"):
        gate.push("again", "ok one")
        gate.under_test("again")
        newer = gate.push("again", "ok two")
        gate.wait_for(e.EntrySubmitted, of="again", count=2)
    gate.wait_landed("again")
    assert gate.hub.file("main", "e/again") == "ok two"
    assert gate.hub.git("merge-base", "--is-ancestor", newer, "main") == ""


def test_who_deletes_the_branch_withdraws_nothing(gate: GateOf) -> None:
    """The queue keeps the submitted commit in the hub, even when the branch is deleted and git collects garbage."""
    with gate.held("pinned"):
        commit = gate.push("pinned")
        gate.phase("pinned", "testing")
        gate.hub.git("update-ref", "-d", "refs/scratch/one")
        gate.hub.git("reflog", "expire", "--expire=now", "--all")
        for one in (gate.hub, *(Repository(path=path) for path in gate.machine.cache.glob("mirrors/*.git"))):
            one.git("gc", "-q", "--prune=now")
        assert gate.hub.git("cat-file", "-t", commit) == "commit"
    gate.wait_landed("pinned")


def test_the_same_commit_again_changes_nothing(gate: GateOf) -> None:
    with gate.held("same"):
        commit = gate.push("same")
        gate.under_test("same")
        mark, trials = gate.mark(), len(gate.trials())
        gate.give("same", commit)
        gate.wait(lambda: not gate.hub.refs("refs/forgepool/for"), "the submission to be taken in")
        assert [one for one in gate.since(mark) if isinstance(one.event, e.EntrySubmitted | e.EntryRefused)] == []
        assert len(gate.trials()) == trials
    gate.wait_landed("same")


def test_one_that_was_returned_may_be_tried_again_and_is_counted(gate: GateOf) -> None:
    """The entry fails twice, then a new commit lands. The hub keeps each revision that may still be retried."""
    gate.push("mended", "bad")
    gate.phase("mended", "failed")
    assert gate.stand("mended").code == "check_failed"
    gate.asks("retry", "mended")
    gate.wait_for(e.EntrySubmitted, of="mended", count=2)
    gate.wait(lambda: f"refs/forgepool/{gate.run}/orders/mended/2" in gate.own_refs(), "its pin")
    gate.wait_for(e.TaskFailed, of="mended", count=2)
    gate.push("mended")
    gate.wait_landed("mended")
    assert gate.stand("mended").revision == 3


def test_what_the_target_has_already_makes_no_commit(gate: GateOf) -> None:
    before = gate.tip()
    gate.give("had", before)
    assert "main has" in gate.wait_for(e.EntryRefused, of="had").why
    assert gate.tip() == before


def test_an_entry_that_changes_nothing_is_returned_or_lands_without_harm(gate: GateOf) -> None:
    before = gate.tip()
    gate.give("empty", gate.commit({}))
    gate.phase("empty", "landed", "failed")
    assert gate.hub.git("diff", before, "main") == ""


def test_files_of_all_kinds_arrive_as_they_were(gate: GateOf) -> None:
    """File modes, symlinks, binary content, line ends, odd names, and a file renamed while another entry is tested."""
    base = gate.tip()
    script = gate.feed("hash-object", "-w", "--stdin", text="#!/bin/sh\n")
    odd = {"HEAD": "not a ref\n", "e/odd": "ok\n", "crlf.txt": "one\r\ntwo\r\n", "a b/ü é.txt": "odd\n"}
    commit = gate.commit(odd, base=base)
    lines = [
        "commit refs/scratch/one",
        "mark :1",
        "committer A <a@b> 1700000000 +0000",
        "data 4\nkind",
        f"from {commit}",
        f"M 100755 {script} run.sh",
        "M 120000 inline link\ndata 9\nREADME.md",
        "M 100644 inline bytes\ndata 4\n\0\1\2\3",
        "R README.md MOVED.md",
        "",
        "get-mark :1",
        "done",
    ]
    kinds = gate.feed("fast-import", "--quiet", "--force", "--done", text="\n".join(lines) + "\n")
    gate.push("beside-kinds", base=base)
    gate.wait_landed("beside-kinds")
    gate.give("all.kinds", kinds)
    name = entry_name("all.kinds")
    gate.phase(name, "landed", "failed", "needs_human")
    wanted = gate.hub.git("ls-tree", "-r", kinds).splitlines()
    found = gate.hub.git("ls-tree", "-r", "main").splitlines()
    assert gate.stand(name).state == "landed", gate.paragraph(name)
    assert {one for one in wanted if "\te/" not in one} == {one for one in found if "\te/" not in one}


def test_pointers_and_line_ends_arrive_as_the_bytes_they_were_and_nothing_is_glued_together(gate: GateOf) -> None:
    """
    The queue runs no filter and no merge driver that the target's attributes name for large files, line ends or merges.
    """
    attributes = "*.bin filter=lfs diff=lfs merge=lfs -text\n*.txt text eol=crlf\nlog merge=union\n"
    base = gate.foreign({".gitattributes": attributes, "log": "first\n", "old.txt": "one\r\ntwo\r\n"})
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"
    brought = {"big.bin": pointer, "lines.txt": "one\ntwo\n", "old.txt": "one\r\nthree\r\n", "log": "first\nmine\n"}
    commit = gate.commit({"e/pointers": "ok\n", **brought}, base=base)
    gate.give("pointers", commit)
    gate.wait_landed("pointers")
    for path in brought:
        assert gate.hub.git("rev-parse", f"main:{path}") == gate.hub.git("rev-parse", f"{commit}:{path}"), path
    gate.give("glued", gate.commit({"e/glued": "ok\n", "log": "first\nalso mine\n"}, base=base))
    gate.phase("glued", "failed")
    assert gate.state().tasks["glued"].reasons[-1].paths == ("log",)
    gate.foreign({".gitattributes": None})


@pytest.mark.parametrize(("status", "phase"), [(0, "landed"), (1, "failed")])
def test_a_check_that_says_too_much_is_heard_to_its_end(gate: GateOf, status: int, phase: str) -> None:
    """The output is kept in part, and the exit status counts."""
    name = f"flood-{status}"
    gate.push(name, f"floods {status}")
    gate.phase(name, "landed", "failed")
    assert gate.stand(name).state == {"landed": "landed", "failed": "returned"}[phase], gate.paragraph(name)
    told = [one for result in events_of(gate.journal(), e.CheckAnswered) for one in result.result.failures]
    assert all(len(one.log_tail) < 100_000 for one in told) and bool(told) >= bool(status)
    # Remove the file, so that no later check reads it.
    gate.foreign({f"e/{name}": None})


def test_what_a_check_leaves_running_goes_with_it(gate: GateOf) -> None:
    """Processes in the check's session and in sessions of their own both end."""
    gate.push("orphaned", "orphans")
    gate.wait_landed("orphaned")
    gate.wait(lambda: not _sleeping(), "the end of what it has left")
    gate.foreign({"e/orphaned": None})


def _sleeping() -> list[list[str]]:
    """Return the command lines of the `sleep` processes that the check leaves behind, of any user."""
    found = (one.read_bytes().split(b"\0")[:-1] for one in Path("/proc").glob("[0-9]*/cmdline") if one.exists())
    left = {b"301", b"302", b"303", b"304"}
    return [[word.decode() for word in words] for words in found if words[:1] == [b"sleep"] and left & set(words[1:])]


@pytest.mark.parametrize(
    ("name", "path"), [("driver", ".gitattributes"), ("weaker", "forgepool.yaml"), ("linked", ".gitmodules")]
)
def test_what_only_a_person_may_change_is_returned_with_the_files_name(gate: GateOf, name: str, path: str) -> None:
    """
    The paths are settings of git and of the gate. The change to the gate file does not weaken the check that judges it.
    """
    gate.push(name, more={path: "version: 1\nchecks: {entries: test -d .}\n"})
    gate.phase(name, "failed")
    assert path in gate.stand(name).why


def test_a_person_lets_one_commit_change_what_is_protected(gate: GateOf) -> None:
    """
    The reason names the command that grants it. A grant holds for one commit; the next commit under the name needs
    another.
    """
    path = ".github/workflows/build.yml"
    gate.push("leave", more={path: "on: push\n"})
    gate.phase("leave", "failed")
    assert gate.explained("leave")["next"].endswith(f"forgepool queue grant leave {path}")
    with gate.held("leave"):
        gate.asks("grant", "leave", grants=(path,), by="Ada")
        gate.under_test("leave")
        mark = gate.mark()
        gate.push("leave", more={path: "on: [push]\n"})
        gate.wait_for(e.EntrySubmitted, of="leave", since=mark)
    gate.wait_for(e.TaskFailed, of="leave", since=mark)
    gate.asks("grant", "leave", grants=(".github/**",), by="Ada")
    gate.wait_landed("leave", since=mark)
    assert gate.hub.git("show", f"main:{path}") == "on: [push]"


def test_a_persons_word_is_answered_with_one_object_for_programs(gate: GateOf) -> None:
    """
    While a queue runs, the command leaves the request to it. A request that cannot be fulfilled prints a sentence and
    exits with 2.
    """
    mark = gate.mark()
    for words, event in ((("pause", "lunch"), e.GatePaused), (("resume",), e.GateResumed)):
        said = gate.machine.run("gate", *words, "--json", "--gate", gate.run)
        assert json.loads(said.out) == {"gate": gate.run, "entry": None, "done": False, "said": []}
        gate.wait_for(event, since=mark)
    again = gate.machine.run("gate", "resume", "--json", "--gate", gate.run)
    assert (again.status, again.err) == (2, "forgepool: there is nothing to resume: it stands so already\n")


def test_a_name_that_is_no_text_does_not_stop_the_gate(gate: GateOf) -> None:
    """Git accepts any bytes as an author's name, and the journal stores text."""
    tree = gate.hub.git("rev-parse", f"{gate.commit({'e/latin': 'ok'})}^{{tree}}")
    raw = f"tree {tree}\nparent {gate.tip()}\nauthor J\xfcrgen <j@x> 1700000000 +0000\n".encode("latin-1")
    raw += "committer J\xfcrgen <j@x> 1700000000 +0000\n\ngr\xfc\xdfe\n".encode("latin-1")
    (gate.go / "raw").write_bytes(raw)
    gate.give("latin", gate.hub.git("hash-object", "-t", "commit", "-w", str(gate.go / "raw")))
    gate.wait_landed("latin")


def test_a_file_whose_name_is_no_text_lands_like_any_other(gate: GateOf) -> None:
    gate.push("bytes", more={'"caf\\351"': "x\n"})
    gate.wait_landed("bytes")
    assert '"caf\\351"' in gate.hub.git("ls-tree", "--name-only", "main").splitlines()


def test_words_said_a_thousand_times_are_heard_once(gate: GateOf) -> None:
    with gate.held("stormy"):
        gate.push("stormy")
        gate.phase("stormy", "testing")
        mark = gate.mark()
        for _ in range(500):
            gate.asks("hold", "stormy")
        gate.asks("release", "stormy")
        gate.wait(lambda: not list((gate.folder / "inbox").glob("*.json")), "all words to be heard")
        held = [(one.task, one.held) for one in events_of(gate.since(mark), e.EntryHeld)]
        assert held == [("stormy", True), ("stormy", False)]
    gate.wait_landed("stormy")


def test_whoever_waits_is_told_for_what_since_when_and_what_next(gate: GateOf) -> None:
    with gate.held("h1"):
        gate.push("h1")
        gate.under_test("h1")
        gate.push("h2")
        gate.phase("h2", "queued", "testing")
        gate.give("h3", gate.commit({"e/h3": "ok\n"}), Needs="h2")
        gate.phase("h3", "queued", "testing")
        gate.asks("hold", "h2")
        gate.wait(lambda: "h2" in gate.state().held, "the hold")
        assert (gate.stand("h1").state, gate.stand("h1").code) == ("tested", "trial")
        stand = gate.stand("h2")
        assert (stand.state, stand.code, stand.why) == ("waits", "held", "a person holds it")
        assert (stand.next, stand.place) == ("forgepool queue release h2", 2)
        stand = gate.stand("h3")
        assert (stand.code, stand.blocked_by) == ("need", "h2")
        assert stand.why == "it needs 'h2', which has not landed yet"
        gate.asks("pause", text="lunch")
        gate.wait(lambda: gate.state().paused, "the pause")
        assert (gate.stand("h1").why, gate.stand("h1").next) == ("the queue is paused: lunch", "forgepool queue resume")
        said = gate.machine.run("gate", "status", "--json", "--gate", gate.run)
        assert said.answer["paused"] == "lunch"
        assert [one["entry"] for one in said.answer["entries"][:3]] == ["h1", "h2", "h3"]
        assert all(one["since"] and one["code"] for one in said.answer["entries"])
        gate.asks("release", "h2")
        gate.asks("go")
    gate.wait_landed("h1", "h2", "h3")


_MADE = """
regenerate:
  - {paths: [gen.lock], from: [m/], run: "! grep -q boom m/* || exit 7; cat m/* > gen.lock"}
  - {paths: [stamp], from: [m/], run: "cat /proc/sys/kernel/random/uuid > stamp"}
"""


def test_two_that_both_change_what_a_command_makes_both_land_as_they_were_tested(gate: GateOf) -> None:
    """
    One generated file differs with each run. If its command fails, the entry is returned with the command to repeat.
    """
    file = gate.hub.file("main", "forgepool.yaml")
    gate.foreign({"forgepool.yaml": f"{file}\n{_MADE}", "m/a": "a\n", "gen.lock": "a\n"})
    mark, base = gate.mark(), gate.tip()
    with gate.held("l1"):
        for name in ("l1", "l2"):
            gate.push(name, base=base, more={f"m/{name}": f"{name}\n", "gen.lock": f"a\n{name}\n"})
            gate.phase(name, "queued", "testing")
        gate.under_test("l1", "l2")
    gate.wait_landed("l1", "l2", since=mark)
    assert gate.hub.file("main", "gen.lock") == "a\nl1\nl2"
    tested = {one.result.commit for one in events_of(gate.since(mark), e.CheckAnswered)}
    assert gate.tip() in tested
    assert gate.hub.file("main", "stamp")
    gate.wait(lambda: not [one for one in gate.own_refs() if "/made/" in one], "what was made to go")
    gate.push("bad-made", base=base, more={"m/x": "boom\n"})
    gate.phase("bad-made", "failed")
    told = gate.paragraph("bad-made")
    assert "the command that makes gen.lock exited with 7 on both" in told
    assert "cat m/* > gen.lock" in told.partition("see it again: ")[2]
    gate.foreign({"forgepool.yaml": f"{file}\n"})


def test_a_check_without_a_vote_is_told_and_keeps_nobody_out(gate: GateOf) -> None:
    file = gate.hub.file("main", "forgepool.yaml")
    gate.foreign({"forgepool.yaml": f"{file}\n  dear: {{run: exit 5, voting: false}}\n"})
    gate.push("voiced")
    gate.wait_landed("voiced")
    told = gate.explained("voiced")
    assert told["state"] == "landed"
    assert "'dear', which has no vote, is red: it exited with 5" in told["why"]
    gate.foreign({"forgepool.yaml": f"{file}\n"})
