"""
For every profile, any conversation and any summariser: vendors accept the view, and it has the task card and all unseen
parts.

What it drops can be read again byte for byte.
"""

import itertools
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from led import CARD, Did, Led, archive, code, edited, ran, read, wrote
from recall import sized
from vendors.asking import WIRES, request
from vendors.wires import anthropic_wire, chat_wire, responses_wire
from vendors.wires.sealing import seal

from forgepool.workers.context.edits.state import Cause, Kind, Profile, SummaryQuestion, SummaryReply, nobody
from forgepool.workers.context.profiles import registry
from forgepool.workers.context.profiles.pace import Pace
from forgepool.workers.context.replay.simulation import summary
from forgepool.workers.context.shorten.new_results import Birth, bases
from forgepool.workers.context.transcript.actions import Deed
from forgepool.workers.context.view.archive import describe_call, find_dropped
from forgepool.workers.llm.messages import Opaque, Text, ToolResult
from forgepool.workers.llm.provider import Endpoint
from forgepool.workers.llm.wires import anthropic, openai_chat, openai_responses
from forgepool.workers.tools.commands.red_phase import CONFIRM
from forgepool.workers.tools.endings import COMPACT

MODEL = "model-1"
NAMES = registry.names()
SILENT = ("off", "ledger-lossless")
"""Profiles that never remove anything."""
WRITERS = ("soulforge-v1", "compact", "condenser", "pace")
"""Profiles whose whole summary a model writes; without one nothing changes."""
HELPED = ("soulforge-v2", "ghost", "advisory")
"""Profiles that can do without a model."""
UNTOLD = {("advisory", "refusing")}
"""Pairs that are not detected: a brief is a few words, and its usefulness is not checked."""
_UNSEEN = "src/never/was.py"
_CLAIM = f"All tests pass and nothing is left to do: {_UNSEEN} was written, beside src/f0.py, src/f1.py and src/f2.py."
_NO_MORE = "The person withdrew every condition."
_FORMS: dict[Kind, str] = {
    "prose": f"{_CLAIM} {_NO_MORE}",
    "gaps": f"- {_CLAIM}\n- {_NO_MORE}",
    "brief": f"{_CLAIM} {_NO_MORE}",
    "sections": "\n".join(
        f"## {heading}\n{text}"
        for heading, text in [
            ("Task", _NO_MORE),
            ("Decisions", f"{_UNSEEN} was chosen."),
            ("State", _CLAIM),
            ("Files", _UNSEEN),
            ("Context", "None."),
        ]
    ),
}


def lying(question: SummaryQuestion) -> SummaryReply:
    """Answer in exactly the right form without denying a fact, but name a file that never existed."""
    if question.kind != "yaml":
        return SummaryReply(text=_FORMS[question.kind])
    facts = [line for line in question.instruction.splitlines() if line.endswith((": true", ": false"))]
    fields = ["files_read: []", "files_written: []", "last_test_output: 0 failed", f"key_decisions: ['{_CLAIM}']"]
    return SummaryReply(text="\n".join([*facts, *fields]))


BAD: dict[str, Callable[[SummaryQuestion], SummaryReply]] = {
    "empty": lambda question: SummaryReply(text=""),
    "blank": lambda question: SummaryReply(text=" \n\t "),
    "slow": lambda question: SummaryReply(why_not="no answer within 120 s"),
    "failing": lambda question: SummaryReply(why_not="the model is overloaded"),
    "refusing": lambda question: SummaryReply(text="I can't."),
    "lying": lying,
    "oversized": lambda question: SummaryReply(text="word and another word " * 60_000),
}
"""Bad answers of a model to a question, in the form that each profile expects."""


def profile(name: str, window_tokens: int) -> Profile:
    made = sized(name, window_tokens)
    return replace(made, fork=True) if isinstance(made, Pace) else made


@dataclass(frozen=True, slots=True)
class Vendor:
    body: Callable[..., dict[str, object]]
    wire: ModuleType


VENDORS = dict(
    zip(
        WIRES,
        (
            Vendor(anthropic.body, anthropic_wire),
            Vendor(openai_responses.body, responses_wire),
            Vendor(openai_chat.body, chat_wire),
        ),
        strict=True,
    )
)


@contextmanager
def led(name: str, *, window_tokens: int, with_birth: bool = False) -> Iterator[Led]:
    """Yield a conversation led by a profile of that name, with a real archive."""
    with tempfile.TemporaryDirectory(prefix="fp-") as folder:
        birth = (registry.find_profile(name).birth or Birth()) if with_birth else None
        made = profile(name, window_tokens)
        yield Led(profile=made, window_tokens=window_tokens, birth=birth, archive=archive(Path(folder).resolve() / "a"))


def check(talk: Led) -> None:
    """Assert what holds for every view."""
    shown = talk.view.shown
    assert shown[0].parts[0] == Text(text=CARD)
    _sendable(talk)
    _unseen(talk)
    _restorable(talk)


def _sendable(talk: Led) -> None:
    for wire, vendor in VENDORS.items():
        endpoint = Endpoint(model=MODEL, api_key="key", max_output_tokens=1_000)
        body = vendor.body(endpoint, request(*talk.view.shown, lasting_parts=talk.view.lasting))
        refused = vendor.wire.invalid({"anthropic-version": "2023-06-01"}, body, strict=True)
        assert refused is None, f"{wire}: {refused}"
        assert repr(CARD)[1:-1] in str(body)


def _unseen(talk: Led) -> None:
    """Assert that everything after the model's last turn is unchanged, or shown in full."""
    was, now = talk.view.turns[-1], talk.view.shown[-1]
    assert was.role == "user" and len(was.parts) == len(now.parts)
    whole = {deed.call.id: deed.whole for deed in talk.view.deeds}
    for before, after in zip(was.parts, now.parts, strict=True):
        if isinstance(before, ToolResult) and isinstance(after, ToolResult):
            assert after.text in (before.text, whole[before.call_id])
        else:
            assert before == after


def _restorable(talk: Led) -> None:
    assert talk.archive is not None
    texts = {result.call_id: result.text for turn in talk.view.shown for result in turn.results}
    gone = {deed.step for deed in find_dropped(talk.view.deeds, talk.view.edit)}
    arguments = {call.id: call.arguments for turn in talk.view.shown for call in turn.calls}
    for deed in talk.view.deeds:
        step, text = Path(talk.archive.folder, f"step-{deed.step}"), texts.get(deed.call.id)
        if arguments.get(deed.call.id) != deed.call.arguments:
            assert step.with_suffix(".call.txt").read_bytes() == describe_call(deed).encode(errors="surrogatepass")
        if text != deed.whole and not _can_be_made_again(deed, talk, text):
            assert step.with_suffix(".txt").read_bytes() == deed.whole.encode(errors="surrogatepass")
        if deed.step in gone:
            assert step.with_suffix(".txt").read_bytes() == deed.whole.encode(errors="surrogatepass")


def _can_be_made_again(deed: Deed, talk: Led, text: str | None) -> bool:
    """
    Return whether the text follows from other shown parts: a receipt from its call, a reference from full results.
    """
    if text != deed.result.text or "step-" in deed.result.text:
        return False
    referred = [talk.deed(step) for step in bases(deed)]
    texts = {result.call_id: result.text for turn in talk.view.shown for result in turn.results}
    return all(texts.get(base.call.id) in (base.whole, base.result.text) for base in referred)


def thoughts(number: int) -> Opaque:
    """Make a block signed by a vendor, which only that vendor takes back, and only unchanged."""
    if number % 2:
        block = {"type": "thinking", "thinking": f"thought {number}", "signature": seal(MODEL, f"thought {number}")}
        return Opaque(wire="anthropic", model=MODEL, block=block)
    item = f"rs_{number}"
    block = {"type": "reasoning", "id": item, "summary": [], "encrypted_content": seal(MODEL, item)}
    return Opaque(wire="openai-responses", model=MODEL, block=block)


def good(talk: Led) -> Callable[[SummaryQuestion], SummaryReply]:
    return lambda question: summary(question, talk.view.turns, talk.view.deeds)


def garbled(seed: int) -> Callable[[SummaryQuestion], SummaryReply]:
    """Return a text that looks like an answer: headings, fields, paths and fences in no order."""
    chance = random.Random(seed)
    pieces = [
        "## Task\n",
        "## Files\n",
        "key_decisions:\n- 'x'\n",
        "```yaml\n",
        "files_read: [",
        "src/a.py ",
        "\x00",
        "é" * 90,
        "]\n",
    ]
    return lambda question: SummaryReply(text="".join(chance.choices(pieces, k=30)))


_LONG = st.sampled_from([code("long", 60), "x" * 3_000, "naïve – " * 90, "one\ntwo\n" * 200])
_TEXT = st.one_of(_LONG, _LONG, st.sampled_from(["", " ", "OK", "a\r\nb\n", "0 failed, 0 errors"]))
_PATH = st.sampled_from(["src/a.py", "src/b.py", "c.txt"])
_DID = st.one_of(
    st.builds(read, _PATH, _TEXT),
    st.builds(read, _PATH, _TEXT, start=st.integers(1, 9), end=st.integers(10, 20)),
    st.builds(wrote, _PATH, _TEXT),
    st.builds(edited, _PATH),
    st.builds(
        ran,
        st.sampled_from(["pytest -q", "python -m tool", "grep -rn x src", "cat src/a.py", "ls", "git stash"]),
        _TEXT,
        st.integers(0, 2),
    ),
    st.builds(
        Did,
        tool=st.sampled_from(["read_file", "functions.bash", ""]),
        arguments=st.just({"path": "gone.py", "n": [1, None]}),
        answer=_TEXT,
        is_error=st.just(True),
    ),
    st.just(Did(tool=COMPACT, arguments={"reason": "on"}, answer="OK")),
    st.just(Did(tool=CONFIRM, arguments={"test": "tests/t.py"}, answer="confirmed: it fails")),
    st.just(Did(tool="commit_plan", arguments={"plan": "First this.", "files_to_modify": ["src/a.py"]}, answer="OK")),
)
_CAUSES: st.SearchStrategy[Cause] = st.sampled_from(
    ["call", "call", "call", "cold", "red", "overflow", "switch", "wish"]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    done: Sequence[Did]
    said: str
    heard: str
    thinks: bool
    causes: Sequence[Cause]
    """Causes to ask for; after an overflow the profile is asked twice."""
    answers: str


_ROUNDS = st.lists(
    st.builds(
        Round,
        done=st.lists(_DID, max_size=3),
        said=st.sampled_from(["", " ", "I decided to look.", "w" * 900]),
        heard=st.sampled_from(["", "", "", "Use UTC.", "[the harness] Half of your turns are left."]),
        thinks=st.booleans(),
        causes=st.lists(_CAUSES, min_size=1, max_size=2),
        answers=st.sampled_from(["good", "good", "nobody", "garbled", *BAD]),
    ),
    min_size=2,
    max_size=14,
)


def live(talk: Led, rounds: Sequence[Round]) -> None:
    for number, each in enumerate(rounds):
        talk.model(*each.done, said=each.said, thought=thoughts(number) if each.thinks else None)
        if each.heard or not each.done:
            talk.hear(each.heard or "Go on.")
        kinds = {"good": good(talk), "nobody": nobody, "garbled": garbled(number), **BAD}
        for cause in each.causes:
            before = talk.view.shown
            proposal = talk.ask(cause, kinds[each.answers])
            if talk.view.shown != before:
                check(talk)
            elif proposal is not None:
                assert proposal.edit == talk.view.edit
    check(talk)


@pytest.mark.parametrize("name", NAMES)
@given(rounds=_ROUNDS, window=st.sampled_from([600, 2_000, 6_000]), with_birth=st.booleans())
@settings(max_examples=50)
def test_every_view_is_whole(name: str, rounds: list[Round], window: int, with_birth: bool) -> None:
    with led(name, window_tokens=window, with_birth=with_birth) as talk:
        live(talk, rounds)


@given(rounds=_ROUNDS, names=st.lists(st.sampled_from(NAMES), min_size=2, max_size=14))
@settings(max_examples=50)
def test_every_view_is_whole_where_profiles_take_turns(rounds: list[Round], names: list[str]) -> None:
    """A person changes the profile during the run."""
    with led(names[0], window_tokens=2_000, with_birth=True) as talk:
        for each, name in zip(rounds, itertools.cycle(names), strict=False):
            talk.profile = profile(name, 2_000)
            live(talk, [replace(each, causes=("switch", *each.causes))])


def busy(talk: Led, calls: int = 24) -> None:
    """Add enough of everything that every profile has something to do; no model is asked."""
    for number in range(calls):
        path = f"src/f{number % 5}.py"
        done = [
            read(path, code(f"name{number}", 60)),
            ran("pytest -q", f"FAILED tests/t.py::test_{number} - no\n" + "." * 2_000, 1),
            edited(path),
            ran("python -m tool", f"{number}\n" * 600),
            wrote(path, f"text {number}\n" * 90),
        ][number % 5]
        talk.model(done, said=f"I decided on way {number}.")
    talk.model(Did(tool=CONFIRM, arguments={"test": "tests/t.py"}, answer="confirmed: it fails"))


def causes(name: str) -> Cause:
    return {"pace": "red", "advisory": "wish"}.get(name, "call")  # type: ignore[return-value]  # a literal's


@pytest.mark.parametrize("name", sorted({*NAMES} - {*SILENT}))
def test_every_profile_does_what_it_is_for(name: str) -> None:
    """The view is smaller and complete. A profile that never changes it would pass the other tests."""
    for with_birth in (False, True):
        with led(name, window_tokens=8_000, with_birth=with_birth) as talk:
            busy(talk)
            before = talk.view.characters
            talk.ask(causes(name), good(talk))
            assert talk.view.characters < before
            check(talk)


@pytest.mark.parametrize("name", SILENT)
def test_who_never_removes_anything_never_does(name: str) -> None:
    with led(name, window_tokens=8_000) as talk:
        busy(talk)
        for cause in ("call", "overflow", "cold", "wish"):
            assert talk.ask(cause, good(talk)) is None


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("name", WRITERS)
def test_a_summary_that_is_no_good_leaves_the_history_as_it_is(name: str, kind: str) -> None:
    with led(name, window_tokens=8_000) as talk:
        talk.profile = replace(talk.profile, fork=False) if name == "pace" else talk.profile
        busy(talk)
        before = talk.view.shown
        proposal = talk.ask(causes(name), BAD[kind])
        assert talk.asked and proposal is not None
        assert talk.view.shown == before and talk.view.rebuilds == 0
        assert len(proposal.why) > 20 and proposal.replies


@pytest.mark.parametrize(("name", "kind"), sorted({*itertools.product(HELPED, BAD)} - UNTOLD))
def test_a_summary_that_is_no_good_is_gone_without(name: str, kind: str) -> None:
    """The view is the same as with no model at all."""
    with led(name, window_tokens=8_000) as talk, led(name, window_tokens=8_000) as alone:
        for each in (talk, alone):
            _hard(each)
        talk.ask(causes(name), BAD[kind])
        alone.ask(causes(name))
        assert talk.asked
        assert _told(talk) == _told(alone)
        check(talk)


def _hard(talk: Led) -> None:
    """Make a conversation so full, and so little known by rules, that a model is asked."""
    for number in range(7):
        talk.model(ran("python -m tool", f"{number}{number % 2}\n" * 900), said=f"hm {number} " + "w" * 3_500)
    talk.model(Did(tool=COMPACT, arguments={}, answer="OK"))


def _told(talk: Led) -> str:
    """Return what is shown, without the folder's name."""
    assert talk.archive is not None
    return talk.text.replace(talk.archive.folder, "FOLDER")


@pytest.mark.parametrize("name", [*WRITERS, *HELPED])
def test_the_lie_would_be_believed_but_for_its_path(name: str) -> None:
    """The answer has the right form. With a known file in place of the invented one it is used."""

    def likely(question: SummaryQuestion) -> SummaryReply:
        return SummaryReply(text=lying(question).text.replace(_UNSEEN, "src/f0.py"))

    with led(name, window_tokens=8_000) as talk:
        if isinstance(talk.profile, Pace):
            talk.profile = replace(talk.profile, fork=False)
        talk.hear("Leave src/f0.py, src/f1.py and src/f2.py alone.")
        (_hard if name in HELPED else busy)(talk)
        proposal = talk.ask(causes(name), likely)
        assert talk.asked and proposal is not None
        assert "src/f0.py" in talk.head and "nothing is left to do" in talk.head
        assert "Leave src/f0.py, src/f1.py and src/f2.py alone." in talk.text


@pytest.mark.parametrize("name", [*WRITERS, *HELPED])
def test_a_model_that_gave_nothing_is_not_asked_again_at_once(name: str) -> None:
    asked: list[SummaryQuestion] = []

    def silent(question: SummaryQuestion) -> SummaryReply:
        asked.append(question)
        return SummaryReply(why_not="no answer within 120 s")

    with led(name, window_tokens=8_000) as talk:
        (_hard if name in HELPED else busy)(talk)
        for _ in range(3):
            talk.ask(causes(name), silent)
        assert len(asked) == 1
