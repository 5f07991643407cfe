"""A call needs the names it uses that an earlier result has shown. A need is lost if nothing shows it any more."""

import pytest
from recorded import Tape

from forgepool.workers.context.profiles.registry import Off
from forgepool.workers.context.replay.cost import ANTHROPIC
from forgepool.workers.context.replay.needs import Needs, SeenWords, anchor, find_lost, find_words, general, needs
from forgepool.workers.context.replay.simulation import ReplayTerms, simulate
from forgepool.workers.context.shorten.new_results import Birth
from forgepool.workers.llm.messages import ToolCall

NOTHING: frozenset[str] = frozenset()


def names(found: Needs) -> list[str]:
    return [need.name for need in found.names]


def shown(*texts: str) -> list[SeenWords]:
    return [find_words(text) for text in texts]


def test_a_name_is_needed_from_the_newest_result_that_showed_it() -> None:
    tape = Tape()
    tape.read("a", "def expire(): pass")
    tape.read("b", "expire is called here, and more")
    tape.call("grep", {"pattern": "expire"}, "")
    found = needs(tape.turns, NOTHING)[5]
    assert names(found) == ["expire"]
    (need,) = found.names
    assert (need.source.turn, need.source.part, need.source.characters) == (4, 0, 31)


def test_what_only_the_model_has_said_is_no_need() -> None:
    """A name that the call introduces, or that only its own result shows, is no need either."""
    tape = Tape(task="look at session_store")
    tape.say("I suppose there is a TokenCache.")
    tape.call("grep", {"pattern": "TokenCache session_store fresh_name"}, "fresh_name")
    assert needs(tape.turns, NOTHING) == {}


def test_names_of_three_projects_are_general_and_of_two_are_not() -> None:
    projects = {"a": ["setup_all only_a"], "b": ["setup_all two"], "c": ["setup_all two_only"]}
    assert general(projects) == {"setup_all"}
    assert general({**projects, "c": ["nothing"]}) == set()
    tape = Tape()
    tape.read("a", "setup_all only_a")
    tape.call("grep", {"pattern": "setup_all only_a"}, "")
    assert names(needs(tape.turns, general(projects))[3]) == ["only_a"]


def test_a_need_is_lost_where_no_text_shows_it() -> None:
    tape = Tape()
    tape.read("a", "def expire(): pass\ndef renew(): pass")
    tape.call("grep", {"pattern": "expire renew"}, "")
    wanted = needs(tape.turns, NOTHING)[3]
    assert not find_lost(wanted, shown("renew", "expire")).any
    assert names(find_lost(wanted, shown("renew", "expired"))) == ["expire"]
    assert find_lost(wanted, shown()).any


def test_an_anchor_is_found_whatever_numbers_its_lines_had() -> None:
    tape = Tape()
    tape.read("a", "    12\t    def expire(self):\n    13\t        return None\n")
    tape.call("edit_file", {"path": "a", "old": "def expire(self):\n    return None", "new": "x"}, "OK")
    wanted = needs(tape.turns, NOTHING)[3]
    assert [each.lines for each in wanted.anchors] == [("def expire(self):", "return None")]
    assert not find_lost(wanted, shown("def expire(self):", "return None")).anchors
    assert not find_lost(wanted, shown("@@ -1 +1 @@\n-def expire(self):\n+return None")).anchors
    assert len(find_lost(wanted, shown("def expire(self):")).anchors) == 1


def test_an_anchor_nobody_has_shown_is_not_counted() -> None:
    tape = Tape()
    tape.read("a", "def expire(): pass")
    tape.call("edit_file", {"path": "a", "old": "def never_shown(): pass", "new": "x"}, "OK")
    assert 3 not in needs(tape.turns, NOTHING)


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"old_string": " a b\n\nc ", "new_string": "d"}, ("a b", "c")),
        ({"edits": [{"old_string": "a"}, {"old_string": "b"}]}, ("a", "b")),
        ({"input": "*** Begin Patch\n*** Update File: x\n@@\n kept\n-gone\n+new\n*** End Patch"}, ("gone",)),
        ({"pattern": "old"}, ()),
        ({"command": "rm -rf x\n- not a patch"}, ()),
    ],
)
def test_anchors_are_the_lines_that_an_edit_replaces(arguments: dict[str, object], lines: tuple[str, ...]) -> None:
    assert anchor(ToolCall(id="c", name="edit", arguments=arguments)) == lines


def test_what_was_shortened_without_loss_at_birth_loses_no_anchor() -> None:
    """The second run is shown as a difference, and the edit's old text is only in that."""
    lines = [f"line number {number} of the report" for number in range(60)]
    tape = Tape()
    tape.call("bash", {"command": "./report"}, "\n".join(lines))
    lines[30] = "the value is forty_two now"
    tape.call("bash", {"command": "./report"}, "\n".join(lines))
    tape.call("edit_file", {"path": "r", "old": "the value is forty_two now", "new": "x"}, "OK")
    recording = tape.recording
    wanted = needs(recording.turns, NOTHING)
    plain = simulate(recording, wanted, Off(), ReplayTerms(prices=ANTHROPIC))
    short = simulate(recording, wanted, Off(), ReplayTerms(prices=ANTHROPIC), birth=Birth.lossless())
    assert short.bill.written < plain.bill.written - 300
    assert (short.anchors, short.anchors_lost, short.needs_lost) == (1, 0, 0)
