"""
Attempts whose conversations are shortened, from order to candidate, against a server that speaks a vendor's format.
"""

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from host_kit import Host
from vendors.answers import Answer, Fault, Say, Seen
from vendors.server import VendorServer

from forgepool.workers.context.profile_switch import wish_profile
from forgepool.workers.context.transcript.entries import (
    Answered,
    ConversationStarted,
    Noted,
    Profiled,
    Rebuilt,
    Summoned,
    TurnSaid,
)
from forgepool.workers.context.transcript.usage import Meter
from forgepool.workers.queue.broker import Redis
from forgepool.workers.schema.orders import BuiltinAgent, HintSettings, Limits, ScriptedAgent, WorkResult
from forgepool.workers.schema.reports import Prior

KEY = "CONTEXT_TEST_KEY"
SECRET = "k-very-secret-9876543210"
LINES = "\n".join(f"value_{number} = compute_{number}()" for number in range(400))
FILES = {"a.py": "def old():\n    return 1\n", **{f"b{number}.py": f"# {number}\n{LINES}\n" for number in range(12)}}

PLAN = ("commit_plan", {"plan": "Rename it.", "files_to_modify": ["a.py"]})
RENAME = ("bash", {"command": "sed -i s/old/new/ a.py"})
FINISH = ("finish", {"summary": "renamed"})


def planning(seen: Seen) -> bool:
    return "commit_plan" in seen.tools


def reads(number: int) -> tuple[str, dict[str, str]]:
    return ("read_file", {"path": f"b{number}.py"})


class Course:
    """A brain that makes its calls one after another, whatever it is shown, because a shortened view shows less."""

    def __init__(self, *calls: tuple[str, dict[str, str]] | Answer, small: Answer | None = None) -> None:
        self._calls, self._small, self.next = list(calls), small, 0
        self.summed: list[Seen] = []

    def __call__(self, seen: Seen) -> Answer:
        if seen.model == "small":
            self.summed.append(seen)
            assert self._small is not None
            return self._small
        if planning(seen):
            return Say(calls=[PLAN])
        step = self._calls[self.next]
        self.next += 1
        return Say(calls=[step]) if isinstance(step, tuple) else step


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setenv(KEY, SECRET)
    return Host(tmp_path, FILES)


Serve = Callable[..., VendorServer]


@pytest.fixture
def serve(host: Host, request: pytest.FixtureRequest) -> Serve:
    """Start a server with a model `m`, the stronger `n`, and `small` for summaries, all in the host's table."""

    def go(brain: Callable[[Seen], Answer], *, window: int = 100_000) -> VendorServer:
        server = VendorServer(brain, models=["m", "n", "small"])
        server.__enter__()
        request.addfinalizer(lambda: server.__exit__(None, None, None))
        price = "{input: 1, cached: 0.1, written: 1.25, output: 5}"
        model = f"account: local, family: test, window_tokens: {window}, max_output_tokens: 4000, price: {price}"
        route = "reason: a test, source: here, date: '2026-11-01'"
        path = host.folder / "models.yaml"
        path.write_text(
            f"accounts:\n  local: {{wire: anthropic, key: {KEY}, base_url: '{server.url}'}}\n"
            f"models:\n  m: {{{model}}}\n  n: {{{model}, strength: 3}}\n  small: {{{model}}}\n"
            f"routes:\n  code: {{primary: m, then: [n], {route}}}\n  compact: {{primary: small, {route}}}\nbudget: m\n"
        )
        host.settings = host.settings.model_copy(update={"models": path})
        return server

    return go


def work(host: Host, **said: Any) -> WorkResult:
    usual = {"agent": BuiltinAgent(hints=False), "title": "Rename old", "acceptance": ("grep -q new a.py",)}
    return host.carry_out(**(usual | said))


def rebuilds(host: Host, attempt: int = 1) -> list[Rebuilt]:
    return [entry for entry in host.transcript(attempt) if isinstance(entry, Rebuilt)]


def test_a_long_attempt_is_rebuilt_and_comes_to_its_end(host: Host, serve: Serve) -> None:
    """The strictest vendor accepts each request, all contain the card, and dropped results can be read again."""
    course = Course(*(reads(number) for number in range(12)), RENAME, FINISH)
    server = serve(course)
    done = work(host)
    assert done.outcome == "candidate", done.detail
    assert server.invalid == []
    (first, *_) = rebuilds(host)
    assert first.profile == "ledger" and first.edit is not None and first.dropped
    executing = [seen for seen in server.seen if not planning(seen)]
    assert all("Rename old" in seen.texts[0] for seen in executing)
    sizes = [len(seen.raw) for seen in executing]
    assert any(after < before / 2 for before, after in pairwise(sizes))


def test_whole_results_that_do_not_fit_into_the_window_are_given_in_short(host: Host, serve: Serve) -> None:
    """Three results of 265,000 characters in all, and a window of 30,000 tokens."""
    server = serve(Course(RENAME, FINISH), window=30_000)
    priors = tuple(Prior(task=f"g{number}", full=True, summary="x " * 44_000) for number in range(3))
    done = work(host, priors=priors)
    assert done.outcome == "candidate", done.detail
    opening = server.seen[0].texts[0]
    assert len(opening) < 0.40 * 30_000 * 4
    assert opening.count("(No room for all of it here: read the file.)") == 3 and "/results/g0.md]" in opening
    (note,) = {entry.text for entry in host.transcript() if isinstance(entry, Noted) and "in short" in entry.text}
    assert note.endswith("the whole result of 'g0', the whole result of 'g1', the whole result of 'g2'")


def test_a_task_that_fits_into_no_window_waits_for_a_person_before_any_call(host: Host, serve: Serve) -> None:
    server = serve(Course(), window=30_000)
    done = work(host, description="word " * 20_000)
    assert (done.outcome, done.lacks) == ("needs_human", True)
    assert "model 'm' has a window of 30,000; most of it is its description (about 25,000 tokens)" in done.detail
    assert server.seen == []


def test_the_profile_comes_from_the_settings_the_plan_or_a_person(host: Host, serve: Serve) -> None:
    """Each overrides the one before, and the transcript begins with it."""
    serve(Course(*([RENAME, FINISH] * 3)))
    host.settings = host.settings.model_copy(update={"context": "ghost"})
    for attempt, said in enumerate(
        (
            {},
            {"agent": BuiltinAgent(hints=False, context="pace")},
            {"agent": BuiltinAgent(hints=False, context="pace"), "context": "off"},
        ),
        start=1,
    ):
        assert work(host, attempt=attempt, **said).outcome == "candidate"
        first = next(entry for entry in host.transcript(attempt) if isinstance(entry, Profiled))
        assert (first.profile, first.by) == (("ghost", "pace", "off")[attempt - 1], "")


@pytest.mark.parametrize("agent", [BuiltinAgent(), ScriptedAgent(script="turns: [{calls: [{tool: finish}]}]")])
def test_a_profile_nobody_knows_is_for_a_person_to_mend(host: Host, serve: Serve, agent: Any) -> None:
    """No model is asked and no attempt is used, as with a wrong table of models."""
    server = serve(Course())
    host.settings = host.settings.model_copy(update={"context": "ledgre"})
    done = work(host, agent=agent)
    assert done.outcome == "needs_human" and "write 'ledger'" in done.detail, done
    assert "\n" not in done.detail and server.seen == []


def test_a_summary_is_asked_for_once_though_its_worker_dies_meanwhile(host: Host, serve: Serve, tmp_path: Path) -> None:
    """The next attempt, on another host, finds the question recorded in the hub and continues without a summary."""
    stopping: list[bool] = []
    test = "import a\n\n\ndef test_new():\n    assert a.new() == 1\n"
    confirm = (
        "confirm_red_phase",
        {"command": f"{sys.executable} -m pytest -q -p no:cacheprovider --disable-plugin-autoload test_a.py"},
    )
    course = Course(reads(0), ("write_file", {"path": "test_a.py", "content": test}), confirm, RENAME, FINISH)

    def brain(seen: Seen) -> Answer:
        if seen.model == "small":
            course.summed.append(seen)
            stopping.append(True)
            return Say(text="too late", pause_s=2.0)
        return course(seen)

    serve(brain)
    agent = BuiltinAgent(hints=False, red_first=True, context="pace")
    first = work(host, agent=agent, stop=lambda: bool(stopping))
    assert first.outcome != "candidate" and len(course.summed) == 1
    host.settings = host.settings.model_copy(update={"home": tmp_path / "h2", "cache": tmp_path / "c2", "host": "two"})
    done = work(host, agent=agent, attempt=2, resumes=1)
    assert (done.outcome, done.host, done.includes) == ("candidate", "two", (1,)), done.detail
    assert len(course.summed) == 1
    asked = [entry for entry in host.transcript(2) if isinstance(entry, Summoned)]
    assert [entry.once for entry in asked] == ["pace-compress"]


def test_a_summary_is_charged_to_the_attempt(host: Host, serve: Serve) -> None:
    """The use is in the result and in what another process would find."""
    yaml = (
        "files_read: []\nfiles_written: []\nplan_committed: true\nkey_decisions: [it is renamed]\n"
        "last_test_output: red\nred_phase_confirmed: true\n"
    )
    test = "import a\n\n\ndef test_new():\n    assert a.new() == 1\n"
    confirm = (
        "confirm_red_phase",
        {"command": f"{sys.executable} -m pytest -q -p no:cacheprovider --disable-plugin-autoload test_a.py"},
    )
    steps = (*(reads(number) for number in range(4)), ("write_file", {"path": "test_a.py", "content": test}), confirm)
    course = Course(*steps, RENAME, FINISH, small=Say(text=yaml))
    serve(course)
    done = work(host, agent=BuiltinAgent(hints=False, red_first=True, context="pace"))
    assert done.outcome == "candidate", done.detail
    (paid,) = [entry for entry in rebuilds(host) if entry.calls]
    assert paid.edit is not None and (paid.usage.cost_usd or 0) > 0
    turns = [entry.turn.usage for entry in host.transcript() if isinstance(entry, TurnSaid)]
    alone = sum(usage.cost_usd or 0 for usage in turns)
    assert done.spent.cost_usd == pytest.approx(alone + (paid.usage.cost_usd or 0))
    assert done.spent.turns == Meter.of(Limits(), host.transcript()).spent.turns == len(steps) + 3


def test_an_overflow_is_mended_by_one_rebuild_and_one_more_try(host: Host, serve: Serve) -> None:
    """The same conversation continues with a shorter view."""
    overflow = Fault(kind="overflow")
    course = Course(*(reads(number) for number in range(3)), overflow, RENAME, FINISH)
    server = serve(course)
    done = work(host, agent=BuiltinAgent(hints=False, context="ledger-safe"))
    assert done.outcome == "candidate", done.detail
    assert [entry.cause for entry in rebuilds(host)] == ["overflow"]
    assert [entry.phase for entry in host.transcript() if isinstance(entry, ConversationStarted)] == ["plan", "execute"]
    refused, again = (len(seen.raw) for seen in server.seen[4:6])
    assert again < 0.8 * refused


def test_an_overflow_that_comes_again_goes_the_old_way(host: Host, serve: Serve) -> None:
    """The phase begins again once, and the question is not repeated without end."""
    course = Course(*[step for _ in range(2) for step in (reads(1), reads(2), reads(3), *[Fault(kind="overflow")] * 2)])
    server = serve(course)
    done = work(host)
    assert done.outcome == "agent_failed" and "outgrew the model's window twice" in done.detail
    assert [entry.phase for entry in host.transcript() if isinstance(entry, ConversationStarted)] == [
        "plan",
        "execute",
        "execute",
    ]
    assert len(server.seen) == 11


def test_a_stronger_model_that_takes_over_begins_with_a_rebuilt_view(host: Host, serve: Serve) -> None:
    """Its cache has nothing of the conversation, so shortening loses nothing."""
    red = ("bash", {"command": "echo '# no' >> a.py"})
    course = Course(*(reads(number) for number in range(6)), red, FINISH, FINISH, RENAME, FINISH)
    server = serve(course)
    done = work(host, agent=BuiltinAgent(hints=False, context="ledger-safe"))
    assert (done.outcome, done.models) == ("candidate", ("m", "n")), done.detail
    assert rebuilds(host)[-1].cause == "cold" and rebuilds(host)[-1].edit is not None
    first_of_n = next(at for at, seen in enumerate(server.seen) if seen.model == "n")
    assert len(server.seen[first_of_n].raw) < 0.8 * len(server.seen[first_of_n - 1].raw)


def test_a_person_switches_the_profile_of_an_attempt_under_way(
    host: Host, serve: Serve, redis: Redis, redis_url: str
) -> None:
    """The next request is different. The agent's tools do not change within the conversation."""
    course = Course(*(reads(number) for number in range(6)), RENAME, FINISH)

    def brain(seen: Seen) -> Answer:
        if course.next == 5:
            wish_profile(redis, "r", "t", "ledger")
        return course(seen)

    server = serve(brain)
    host.settings = host.settings.model_copy(update={"broker_url": redis_url})
    done = work(host, agent=BuiltinAgent(hints=False, context="advisory"))
    assert done.outcome == "candidate", done.detail
    chosen = [(entry.profile, entry.by) for entry in host.transcript() if isinstance(entry, Profiled)]
    assert chosen == [("advisory", ""), ("ledger", "a person")]
    assert rebuilds(host)[0].cause == "switch"
    sizes = [len(seen.raw) for seen in server.seen]
    assert sizes[7] < 0.8 * sizes[6]
    assert all("compact" in seen.tools for seen in server.seen)


def test_who_goes_on_is_led_by_what_a_person_has_chosen_meanwhile(host: Host, serve: Serve, tmp_path: Path) -> None:
    """The order carries the choice, because Redis has forgotten it."""
    stopping: list[bool] = []
    course = Course(*(reads(number) for number in range(6)), RENAME, FINISH)

    def brain(seen: Seen) -> Answer:
        stopping.extend([True] * (course.next == 4))
        return course(seen)

    serve(brain)
    agent = BuiltinAgent(hints=False, context="off")
    assert work(host, agent=agent, stop=lambda: bool(stopping)).outcome != "candidate"
    host.settings = host.settings.model_copy(update={"home": tmp_path / "h2", "cache": tmp_path / "c2", "host": "two"})
    course.next = 4
    stopping.append(False)
    done = work(host, agent=agent, attempt=2, resumes=1, context="ledger")
    assert done.outcome == "candidate", done.detail
    chosen = [(entry.profile, entry.by) for entry in host.transcript(2) if isinstance(entry, Profiled)]
    assert chosen == [("off", ""), ("ledger", "a person")]
    assert rebuilds(host, 2)[0].cause == "switch"


def test_a_secret_is_hidden_in_what_is_shown_what_is_kept_and_what_is_looked_up(host: Host, serve: Serve) -> None:
    """It is hidden in a result, in a shortened result's full text, in the archive, and in a file shown again."""
    said = f"{SECRET[:10]}''{SECRET[10:]}"  # so that the model's own calls do not contain it
    print_it = ("bash", {"command": f"echo {said}; echo x {said} > leak.txt"})
    change = ("bash", {"command": "sed -i s/x/y/ leak.txt"})
    noise = ("bash", {"command": f"for n in $(seq 1 900); do echo line $n {said}; done"})
    look = ("read_file", {"path": "leak.txt"})
    steps = (print_it, look, change, noise, noise, *(reads(number) for number in range(8)))
    course = Course(*steps, RENAME, ("bash", {"command": "rm leak.txt"}), FINISH)
    server = serve(course)
    host.unconfined()
    done = work(host)
    assert done.outcome == "candidate", done.detail
    assert [entry for entry in rebuilds(host) if entry.dropped]
    shortened = [entry for entry in host.transcript() if isinstance(entry, Answered) and entry.whole]
    assert any("[key hidden]" in entry.whole for entry in shortened)
    results = [entry for entry in host.transcript() if isinstance(entry, Answered)]
    assert not any(SECRET in entry.result.text + entry.whole for entry in results)
    edits = "".join(entry.model_dump_json() for entry in rebuilds(host))
    assert "leak.txt, as it is now" in edits and "y [key hidden]" in edits
    assert not any(SECRET.encode() in seen.raw for seen in server.seen)


def test_the_agent_of_advisory_clears_its_context_itself(host: Host, serve: Serve) -> None:
    """It uses the tool for that. Nothing is removed before."""
    call = ("compact", {"reason": "much of it is noise"})
    course = Course(RENAME, *([reads(0)] * 2), call, *([reads(1)] * 2), FINISH)
    serve(course)
    done = work(host, agent=BuiltinAgent(hints=False, context="advisory"))
    assert done.outcome == "candidate", done.detail
    assert [entry.cause for entry in rebuilds(host)] == ["wish"]
    assert "noise" in rebuilds(host)[0].why


def test_a_model_named_for_hints_is_asked_once_before_plan(host: Host, serve: Serve) -> None:
    """No route is needed. What it proposes stands in PLAN's first message, and its name in the transcript."""
    course = Course(RENAME, FINISH, small=Say(text='[{"path": "b7.py", "confidence": 0.8, "reason": "calls old"}]'))
    server = serve(course)
    done = work(host, agent=BuiltinAgent(hints=HintSettings(model="small")))
    assert done.outcome == "candidate", done.detail
    assert [seen.model for seen in server.seen][:2] == ["small", "m"] and len(course.summed) == 1
    assert "- `b7.py` (confidence: 0.80) — calls old" in server.seen[1].texts[0]
    assert any(
        isinstance(entry, Noted) and entry.text.endswith(" file hints, by small") for entry in host.transcript(1)
    )


def test_a_model_for_hints_that_does_not_exist_is_told(host: Host, serve: Serve) -> None:
    server = serve(Course(RENAME, FINISH))
    done = work(host, agent=BuiltinAgent(hints=HintSettings(model="smal")))
    assert (done.outcome, server.seen) == ("agent_failed", [])
    assert "did you mean 'small'?" in done.detail


def test_calibrations_of_hints_are_kept_on_the_host(host: Host, serve: Serve) -> None:
    serve(Course(RENAME, FINISH))
    assert work(host, agent=BuiltinAgent()).outcome == "candidate"
    assert list((host.settings.cache / "predictions").glob("*.json"))
