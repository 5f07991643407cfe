"""The contents of a reviewer's briefing, and the facts that never get into it."""

import pytest
from review_kit import KEY_VALUE, Desk, Serve, calls, finding, read, script, verdict
from vendors.answers import Say, Seen

from forgepool.supervisor.messages.requests import ReviewPolicy, Sibling
from forgepool.workers.context.transcript.entries import Answered, ConversationStarted, TurnSaid
from forgepool.workers.workspace.scans.findings import ScanFinding

PASS = verdict("pass")
TWO = {"a": "2\n"}


def test_the_card_has_all_it_takes_to_judge(desk: Desk) -> None:
    desk.gate.hub.commit({"AGENTS.md": "Two spaces.\n", "CONTRIBUTING.md": "Be kind.\n", "CLAUDE.md": "Two spaces.\n"})
    entry = desk.entry(TWO).model_copy(update={"holds": ("a", "tests/**"), "claims": "It is two now."})
    attention = ScanFinding(rule="test-edited", path="tests/x.py", line=3, weight="attention", said="a test is edited")
    note = ScanFinding(rule="long-line", path="a", weight="note", said="a long line")
    said = {
        "title": "Make it two",
        "description": "One is too few.\nTwo is right.",
        "acceptance": ("grep 2 a",),
        "siblings": (Sibling(task="other", title="Make b two", files=("b",)),),
        "checked": ("test: 12 tests passed",),
        "findings": (attention, note),
    }
    assert desk.conduct(desk.request(entry, script(read("a"), PASS), **said)).outcome == "passed"
    told = desk.told()
    wanted = ("Make it two", "One is too few.\nTwo is right.", "- grep 2 a", "- tests/**", "It is two now.")
    wanted += ("other: Make b two; files: b", "test: 12 tests passed", "tests/x.py:3 (test-edited) a test is edited")
    wanted += ("-1\n+2", "a: changed, 1 lines added, 1 removed", "Be kind.")
    assert [each for each in wanted if each not in told] == []
    assert told.count("Two spaces.") == 1 and "long-line" not in told


def test_conventions_are_those_of_the_target(desk: Desk) -> None:
    desk.gate.hub.commit({"AGENTS.md": "Two spaces.\n"})
    desk.review({"AGENTS.md": "Four spaces.\n"}, script(read("AGENTS.md"), PASS))
    conventions = desk.told().partition("conventions of this repository")[2].partition("[end ")[0]
    assert "Two spaces." in conventions and "Four spaces." not in conventions


def test_checks_that_have_not_been_run_are_said_to_be_so(desk: Desk) -> None:
    desk.review(TWO, script(read("a"), PASS))
    assert "checks have not been run on this tree yet" in desk.told()


def test_a_long_diff_is_told_in_part_and_can_be_read_whole(desk: Desk) -> None:
    """Deleted lines and other parts that the tree does not show are in files beside it."""
    desk.gate.hub.commit({"long": "".join(f"old {number}\n" for number in range(9000))})
    change = {"a": "2\n", "long": "".join(f"new {number}\n" for number in range(9000))}
    first = desk.request(desk.entry(change), script(read("a", "long"), PASS))
    assert desk.conduct(first).outcome == "passed"
    told = desk.told()
    assert "-1\n+2" in told and "old 4000" not in told.partition("long is")[0]
    assert "/outputs/diff/1.diff: " in told and "of long" in told
    assert len(told.partition("     1\t")[0]) < 70_000


def test_what_lies_beside_the_tree_can_be_read_and_is_no_reading_of_the_file(desk: Desk, serve: Serve) -> None:
    desk.gate.hub.commit({"long": "".join(f"old {number}\n" for number in range(9000))})
    change = {"long": "".join(f"new {number}\n" for number in range(9000))}
    told = {"verdict": "pass", "findings": [], "confidence": 1, "summary": "read the diff"}

    def brain(seen: Seen) -> Say:
        if seen.answered:
            return Say(calls=[("verdict", told)])
        path = next(word for word in seen.texts[0].split() if word.endswith("/diff/1.diff:")).removesuffix(":")
        return Say(calls=[("read_file", {"path": path, "start": 8000})])

    server = serve(brain)
    found = desk.review(change, ReviewPolicy())
    assert "-old 8999" in server.seen[1].results[0]
    assert (found.outcome, found.read) == ("void", ())


def test_the_reviewer_can_look_and_change_nothing(desk: Desk) -> None:
    wanted = calls(
        {"tool": "write_file", "path": "a", "content": "3\n"},
        {"tool": "bash", "command": "echo 3 > a"},
        {"tool": "ask", "question": "may I?"},
        {"tool": "read_file", "path": "../../../etc/passwd"},
        {"tool": "read_file", "path": ".git"},
    )
    found = desk.review(TWO, script(wanted, read("a"), PASS))
    assert found.outcome == "passed"
    entries = desk.transcripts()["1-critic"]
    results = [entry.result for entry in entries if isinstance(entry, Answered)][:5]
    assert all(result.is_error for result in results)
    (started,) = [entry for entry in entries if isinstance(entry, ConversationStarted)]
    assert started.tools == ("read_file", "glob", "grep", "verdict")


def test_a_tree_that_changed_under_its_reviewer_was_not_reviewed(desk: Desk) -> None:
    """Its tools cannot change the tree, so another process did."""
    began = desk.folder() / "1-critic.jsonl"

    def somebody_writes() -> bool:
        if began.exists():
            (checkout,) = (desk.gate.settings.cache / "checkouts").glob("*/slot-1")
            (checkout / "b").write_text("by somebody\n")
        return False

    found = desk.review(TWO, script(read("a"), PASS), stop=somebody_writes)
    assert (found.outcome, found.spent.turns) == ("infrastructure", 2)
    assert "was changed while it was read, in b" in found.detail


def test_it_sees_the_tree_that_would_land(desk: Desk) -> None:
    """The tree contains what landed in the meantime."""
    entry = desk.entry(TWO)
    base = desk.gate.hub.commit({"b": "meanwhile\n"})
    request = desk.request(entry, script(read("a", "b"), PASS)).model_copy(update={"base": base})
    found = desk.conduct(request)
    assert (found.outcome, found.changed) == ("passed", ("a",))
    texts = [entry.result.text for entry in desk.transcripts()["1-critic"] if isinstance(entry, Answered)]
    assert "     1\t2" in texts[0] and "     1\tmeanwhile" in texts[1]


def test_the_patch_id_is_that_of_the_diff_whatever_else_moved(desk: Desk) -> None:
    request = desk.request(desk.entry(TWO), script(read("a"), PASS))
    first = desk.conduct(request)
    base = desk.gate.hub.commit({"b": "meanwhile\n"})
    second = desk.conduct(request.model_copy(update={"base": base, "request_id": "r.one.1.review-2"}))
    assert first.patch_id == second.patch_id and first.tree != second.tree
    other = desk.review({"a": "3\n"}, script(read("a"), PASS), request_id="r.one.1.review-3")
    assert other.patch_id != first.patch_id


@pytest.mark.parametrize("paths", [("a",), ("a", "b")])
def test_what_a_void_verdict_lacks_is_told_to_the_reviewer(desk: Desk, paths: tuple[str, ...]) -> None:
    change = dict.fromkeys(paths, "2\n")
    desk.review(change, script(PASS, read(*paths), verdict("fail", finding("nowhere"))))
    texts = [entry.result.text for entry in desk.transcripts()["1-critic"] if isinstance(entry, Answered)]
    assert texts[0].startswith(f"the verdict does not count: of the {len(paths)} changed files 0 were shown")
    assert texts[0].endswith("The next verdict that does not count ends the review.")
    assert texts[-1].endswith("name one that is there")


def test_nothing_of_the_authors_conversation_is_there(desk: Desk) -> None:
    """The author's transcript is on the same host, and no path that the reviewer can read leads to it."""
    secret = desk.gate.settings.home / "runs" / "r" / "logs" / "orders" / "one" / "1" / "transcript.jsonl"
    secret.parent.mkdir(parents=True)
    secret.write_text('{"the author": "thought so"}\n')
    look = calls({"tool": "read_file", "path": str(secret)}, {"tool": "grep", "pattern": "thought", "path": "/"})
    desk.review(TWO, script(look, read("a"), PASS))
    said = [entry.turn.text for entry in desk.transcripts()["1-critic"] if isinstance(entry, TurnSaid)]
    results = [entry.result.text for entry in desk.transcripts()["1-critic"] if isinstance(entry, Answered)]
    assert "thought so" not in "".join((*said, *results))


def test_a_key_of_this_host_is_told_to_nobody(desk: Desk, serve: Serve) -> None:
    """It is hidden in the diff and in a file that is read."""
    told = {"verdict": "pass", "findings": [], "confidence": 1, "summary": "read a"}
    server = serve(lambda seen: Say(calls=[("verdict", told) if seen.answered else ("read_file", {"path": "a"})]))
    assert desk.review({"a": f"key = {KEY_VALUE}\n"}, ReviewPolicy()).outcome == "passed"
    assert all(KEY_VALUE.encode() not in seen.raw for seen in server.seen)
    assert b"key = [key hidden]" in server.seen[-1].raw
