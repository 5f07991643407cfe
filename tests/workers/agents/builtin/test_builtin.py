"""The built-in agent, from order to candidate, against a server that speaks the vendors' wire formats."""

import json
import re
import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from host_kit import Host
from vendors.answers import Brain, Fault, Say, Seen, Wire
from vendors.server import OVERFLOW_MIDWAY, REFUSAL, VendorServer

from forgepool.workers.context.transcript.entries import (
    ConversationStarted,
    Entry,
    Noted,
    PlanCommitted,
    QuestionTried,
    Resumed,
    TurnSaid,
    Verified,
)
from forgepool.workers.llm.messages import Usage
from forgepool.workers.llm.provider import ModelFailed
from forgepool.workers.llm.routing.breaker import Breaker
from forgepool.workers.llm.routing.pace import AccountPace, PacedCall
from forgepool.workers.queue.broker import Redis
from forgepool.workers.queue.replies import PathRequest, PathsAnswer, read, reply
from forgepool.workers.schema.orders import (
    BuiltinAgent,
    HintSettings,
    Limits,
    ReasonPack,
    Reply,
    ScriptedAgent,
    WorkResult,
)

WIRES: tuple[Wire, ...] = ("anthropic", "openai-responses", "openai-chat")
KEY = "THE_TEST_KEY"
FILES = {"a.py": "def old():\n    return 1\n", "b.py": "x = 1\n"}

PLAN = ("commit_plan", {"plan": "Rename it, in a.py alone.", "files_to_modify": ["a.py"]})
RENAME = ("bash", {"command": "sed -i s/old/new/ a.py"})
FINISH = ("finish", {"summary": "renamed"})


def planning(seen: Seen) -> bool:
    return "commit_plan" in seen.tools


def plain(seen: Seen) -> Say:
    """A brain that reads, plans, renames and finishes."""
    if planning(seen):
        return (
            Say(text="I look first.", calls=[("read_file", {"path": "a.py"})])
            if not seen.answered
            else Say(calls=[PLAN])
        )
    return Say(thinking="easy", calls=[RENAME]) if not seen.answered else Say(calls=[FINISH])


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setenv(KEY, "k-1")
    return Host(tmp_path, FILES)


Serve = Callable[..., VendorServer]


@pytest.fixture
def serve(host: Host, request: pytest.FixtureRequest) -> Serve:
    """Start a server with the models `m` and the stronger `n`, the only ones in the host's table."""

    def go(brain: Brain, wire: Wire = "anthropic") -> VendorServer:
        server = VendorServer(brain, models=["m", "n"])
        server.__enter__()
        request.addfinalizer(lambda: server.__exit__(None, None, None))
        host.settings = host.settings.model_copy(update={"models": table(host, server, wire)})
        return server

    return go


def table(host: Host, server: VendorServer, wire: Wire, key: str = KEY) -> Path:
    url = server.url if wire == "anthropic" else f"{server.url}/v1"
    price = "{input: 1, cached: 0.1, written: 1.25, output: 5}"
    model = f"account: local, family: test, window_tokens: 100000, max_output_tokens: 4000, price: {price}"
    path = host.folder / "models.yaml"
    path.write_text(
        f"accounts:\n  local: {{wire: {wire}, key: {key}, base_url: '{url}'}}\n"
        f"models:\n  m: {{{model}}}\n  n: {{{model}, strength: 3}}\n"
        "routes:\n  code: {primary: m, then: [n], reason: a test, source: here, date: '2026-11-01'}\nbudget: m\n"
    )
    return path


def work(host: Host, **said: Any) -> WorkResult:
    usual = {"agent": BuiltinAgent(), "title": "Rename old", "acceptance": ("grep -q new a.py",)}
    return host.carry_out(**(usual | said))


@pytest.mark.parametrize("wire", WIRES)
def test_a_task_goes_through_its_phases(host: Host, serve: Serve, wire: Wire) -> None:
    """
    On every wire there are a plan, work, verification and a candidate. The strictest vendor accepts every request.
    """
    server = serve(plain, wire)
    done = work(host)
    assert (done.outcome, done.paths, done.claimed_summary, done.models) == ("candidate", ("a.py",), "renamed", ("m",))
    assert host.content(done.commit, "a.py") == "def new():\n    return 1"
    assert server.invalid == []
    entries = host.transcript()
    assert [entry.phase for entry in entries if isinstance(entry, ConversationStarted)] == ["plan", "execute"]
    (plan,) = [entry for entry in entries if isinstance(entry, PlanCommitted)]
    assert plan.files == ("a.py",)
    turns = [entry.turn for entry in entries if isinstance(entry, TurnSaid) and entry.turn.role == "assistant"]
    assert done.spent.turns == len(turns) == len(server.seen) == 4
    assert done.spent.input_tokens == sum(turn.usage.input_tokens for turn in turns) > 0
    assert done.spent.cost_usd is not None and done.spent.cost_usd > 0


def test_execute_begins_afresh_with_the_card_and_what_was_learned(host: Host, serve: Serve) -> None:
    """It has the exact card, the plan and the text that was read, and nothing else of the earlier conversation."""
    server = serve(plain)
    work(host, description="Everything that says `old` is to say new.")
    first, last = server.seen[0], server.seen[-1]
    assert "write_file" not in first.tools and "bash" not in first.tools
    card = first.texts[0].partition("## File Hints")[0].strip()
    assert card in last.texts[0] and "Everything that says `old`" in card
    assert "Rename it, in a.py alone." in last.texts[0]
    assert "def old():" in last.texts[0]
    assert "I look first." not in last.texts[0].split("## What was learned")[0]
    assert len(last.texts) == 1


def test_what_is_red_goes_back_and_is_mended(host: Host, serve: Serve) -> None:
    """The output of the failed acceptance command is the next message in EXECUTE."""

    def brain(seen: Seen) -> Say:
        if planning(seen):
            return Say(calls=[PLAN])
        steps = [RENAME, FINISH, ("write_file", {"path": "b.py", "content": "y = 2\n"}), FINISH]
        return Say(calls=[steps[seen.answered]])

    server = serve(brain)
    done = work(host, acceptance=("grep -n y b.py || { echo there is no y; exit 1; }",))
    assert done.outcome == "candidate"
    assert any("there is no y" in text for text in server.seen[-1].texts)
    assert [entry.ok for entry in host.transcript() if isinstance(entry, Verified)] == [False, True]
    assert server.invalid == []


def test_the_same_failure_again_brings_a_stronger_model_and_then_the_end(host: Host, serve: Serve) -> None:
    """The third equal failure ends the attempt."""

    def brain(seen: Seen) -> Say:
        if planning(seen):
            return Say(calls=[PLAN])
        return Say(calls=[FINISH if seen.answered else RENAME])

    server = serve(brain)
    done = work(host, acceptance=("grep -q never a.py",))
    assert (done.outcome, done.models) == ("verify_failed", ("m", "n")), done.detail
    assert "3 times, in the same way" in done.detail
    assert server.invalid == []


def test_a_plan_that_changes_nothing_ends_as_no_change(host: Host, serve: Serve) -> None:
    """The detail has the plan's text, and EXECUTE does not begin."""
    server = serve(lambda seen: Say(calls=[("commit_plan", {"plan": "It is renamed already.", "files_to_modify": []})]))
    done = work(host, acceptance=())
    assert done.outcome == "no_change" and "It is renamed already." in done.detail
    assert len(server.seen) == 1


def test_finish_is_refused_while_nothing_is_changed(host: Host, serve: Serve) -> None:
    def brain(seen: Seen) -> Say:
        if planning(seen):
            return Say(calls=[PLAN])
        return Say(calls=[[FINISH], [RENAME], [FINISH]][seen.answered])

    server = serve(brain)
    assert work(host).outcome == "candidate"
    assert "not finished: no file that git keeps is changed" in server.seen[-1].results[0]


def test_red_first_wants_a_failing_test_before_the_end(host: Host, serve: Serve) -> None:
    """The harness runs the test itself and does not trust a text about it."""
    test = "import a\n\n\ndef test_new():\n    assert a.new() == 1\n"
    calls = [
        ("write_file", {"path": "test_a.py", "content": test}),
        (
            "confirm_red_phase",
            {"command": f"{sys.executable} -m pytest -q -p no:cacheprovider --disable-plugin-autoload test_a.py"},
        ),
        FINISH,
        ("bash", {"command": "echo 'x = 2' > b.py"}),
        FINISH,
    ]

    def brain(seen: Seen) -> Say:
        if planning(seen):
            return Say(calls=[PLAN])
        return Say(
            calls=[
                [RENAME],
                [FINISH],
                [("bash", {"command": "git show HEAD:a.py > a.py"})],
                *[[one] for one in calls[:2]],
                [RENAME],
                [FINISH],
            ][seen.answered]
        )

    server = serve(brain)
    done = work(host, agent=BuiltinAgent(red_first=True))
    assert done.outcome == "candidate", done.detail
    results = server.seen[-1].results
    assert "no failing test was seen yet" in results[1]
    assert results[4].startswith("OK: confirmed"), results[4]


def test_the_test_that_was_seen_to_fail_must_be_seen_to_pass(host: Host, serve: Serve) -> None:
    """The harness runs it after `finish`. A pipe in the command does not hide its failure."""
    test = "import a\n\n\ndef test_new():\n    assert a.newest() == 1\n"
    run = f"{sys.executable} -m pytest -q -p no:cacheprovider --disable-plugin-autoload test_a.py | tail -3"
    steps: list[tuple[str, dict[str, str]]] = [
        ("write_file", {"path": "test_a.py", "content": test}),
        ("confirm_red_phase", {"command": run}),
        FINISH,
        ("bash", {"command": "echo 'newest = old' >> a.py"}),
        FINISH,
    ]
    server = serve(lambda seen: Say(calls=[PLAN if planning(seen) else steps[seen.answered]]))
    done = work(host, agent=BuiltinAgent(red_first=True), acceptance=())
    assert done.outcome == "candidate", done.detail
    assert [entry.ok for entry in host.transcript() if isinstance(entry, Verified)] == [False, True]
    assert "test_new" in server.seen[-1].texts[-1]


def test_an_attempt_that_was_cut_off_is_gone_on_with_elsewhere(host: Host, serve: Serve, tmp_path: Path) -> None:
    """It continues from the last saved turn with the files of then, and each token counts once."""
    stopping: list[bool] = []

    def brain(seen: Seen) -> Say:
        if planning(seen):
            return Say(calls=[PLAN])
        if seen.answered == 2 and not stopping:
            stopping.append(True)
            return Say(text="too late", calls=[("bash", {"command": "echo lost > lost"})])
        steps = [RENAME, ("bash", {"command": "echo 'y = 2' >> b.py"}), ("read_file", {"path": "b.py"}), FINISH]
        return Say(calls=[steps[seen.answered]])

    server = serve(brain)
    first = work(host, stop=lambda: bool(stopping))
    assert first.outcome != "candidate"
    before = len(server.seen)
    host.settings = host.settings.model_copy(update={"home": tmp_path / "h2", "cache": tmp_path / "c2", "host": "two"})
    done = work(host, attempt=2, resumes=1)
    assert (done.outcome, done.host, done.includes) == ("candidate", "two", (1,)), done.detail
    again = server.seen[before]
    assert not planning(again) and again.answered == 2, "it does not begin anew"
    assert host.content(done.commit, "a.py").startswith("def new") and "y = 2" in host.content(done.commit, "b.py")
    assert "lost" not in done.paths
    assert server.invalid == []
    counted = [entry for entry in host.transcript(2) if isinstance(entry, TurnSaid) and entry.turn.role == "assistant"]
    assert done.spent.turns == len(counted) == len(server.seen) - 1, "the lost turn was used on the other host"


def test_turns_lost_on_this_host_are_counted(host: Host, serve: Serve) -> None:
    """They were paid for but never reached the hub, and are asked for again."""
    stopping: list[bool] = []

    def brain(seen: Seen) -> Say:
        if planning(seen):
            return Say(calls=[PLAN])
        if seen.answered == 1 and not stopping:
            stopping.append(True)
        return Say(calls=[FINISH if seen.answered else RENAME])

    server = serve(brain)
    hook = host.hub / "hooks" / "update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\ncase "$1" in */progress/*) exit 1;; esac\n')
    hook.chmod(0o755)
    work(host, stop=lambda: bool(stopping))
    hook.unlink()
    done = work(host, attempt=2, resumes=1)
    assert (done.outcome, done.includes) == ("candidate", (1,)), done.detail
    entries = host.transcript(2)
    (resumed,) = [entry for entry in entries if isinstance(entry, Resumed)]
    assert entries[0] == resumed, "there was nothing to go on with"
    assert resumed.lost.turns == answers(host.transcript()) > 0
    assert done.spent.turns == answers(host.transcript()) + answers(entries)
    assert done.spent.input_tokens > resumed.lost.input_tokens > 0
    assert server.invalid == []


def answers(entries: list[Entry]) -> int:
    return sum(isinstance(entry, TurnSaid) and entry.turn.role == "assistant" for entry in entries)


def test_a_second_delivery_of_the_same_attempt_goes_on_too(host: Host, serve: Serve) -> None:
    """It does not plan again."""
    stopping: list[bool] = []

    def brain(seen: Seen) -> Say:
        if not planning(seen) and not stopping:
            stopping.append(True)
        return plain(seen)

    server = serve(brain)
    work(host, stop=lambda: bool(stopping))
    done = work(host, resent=True)
    assert (done.outcome, done.includes) == ("candidate", ()), done.detail
    assert sum(planning(seen) for seen in server.seen) == 2


def test_progress_of_another_base_is_not_gone_on_with(host: Host, serve: Serve) -> None:
    """Its files do not belong to this attempt, but its use counts."""
    server = serve(plain)
    first = work(host)
    again = work(host, attempt=2, resumes=1, base=first.commit, acceptance=())
    assert next(entry.phase for entry in host.transcript(2) if isinstance(entry, ConversationStarted)) == "plan"
    assert (again.includes, again.spent.turns) == ((1,), len(server.seen))


def test_a_question_rests_and_its_answer_goes_on(host: Host, serve: Serve) -> None:
    """The same conversation gets the answer, with its work still there."""

    def brain(seen: Seen) -> Say:
        if planning(seen):
            return Say(calls=[PLAN])
        steps = [RENAME, ("ask", {"question": "new or newer?"}), FINISH]
        return Say(calls=[steps[seen.answered]])

    server = serve(brain)
    asked = work(host)
    assert (asked.outcome, asked.question, asked.resumable) == ("needs_human", "new or newer?", True)
    reply = Reply(question="new or newer?", answer="new is fine", by="ann")
    done = work(host, attempt=2, resumes=1, replies=(reply,))
    assert (done.outcome, done.includes) == ("candidate", (1,)), done.detail
    assert "new is fine" in server.seen[-1].texts[-1]
    assert server.invalid == []


def test_a_key_that_is_not_there_needs_a_person(host: Host, serve: Serve) -> None:
    """The message names the variable to set, and the task is not blamed."""
    server = serve(plain)
    host.settings = host.settings.model_copy(update={"models": table(host, server, "anthropic", key="NOT_SET")})
    done = work(host)
    assert (done.outcome, server.seen) == ("needs_human", []), done
    assert "NOT_SET" in done.detail and done.question == "", "nobody has asked anything: something is to be mended"


def test_a_usage_limit_waits_for_its_end(host: Host, serve: Serve) -> None:
    """It is no failure: the order is sent again later and continues where it was."""
    limited = [True]

    def brain(seen: Seen) -> Say | Fault:
        return plain(seen) if planning(seen) or not limited else Fault(kind="usage_limit")

    server = serve(brain)
    waiting = work(host)
    assert (waiting.outcome, waiting.resumable) == ("infrastructure", True), waiting
    assert waiting.not_before is not None and waiting.not_before > time.time()
    assert any(isinstance(entry, QuestionTried) for entry in host.transcript())
    limited.clear()
    done = work(host, attempt=2, resumes=1)
    assert (done.outcome, done.includes) == ("candidate", (1,)), done.detail
    assert sum(planning(seen) for seen in server.seen) == 2
    assert server.invalid == []


@pytest.mark.soak
@pytest.mark.slow
def test_a_wait_for_a_rate_limit_counts_against_no_limit_of_time(
    host: Host, serve: Serve, redis: Redis, redis_url: str
) -> None:
    """The account pauses for longer than the attempt may last."""
    serve(plain)
    host.settings = host.settings.model_copy(update={"broker_url": redis_url})
    pace = AccountPace(breaker=Breaker(client=redis))
    refused = PacedCall(model="m", input_tokens=1, most_output=1, counts_cached=True)
    pace.ask("local", refused)
    pace.settle("local", refused, "refused", Usage(), ModelFailed("x", trouble="rate_limit", retry_after_s=12.0))
    done = work(host, limits=Limits(wall_s=10))
    assert done.outcome == "candidate", done.detail
    assert done.finished_at - done.started_at > 11


def test_an_account_that_is_closed_for_an_order_is_asked_nothing_hints_included(host: Host, serve: Serve) -> None:
    server = serve(plain)
    done = work(host, closed_accounts=("local",), agent=BuiltinAgent(hints=HintSettings(model="m")))
    assert (done.outcome, server.seen) == ("needs_human", []) and "raise that limit" in done.detail, done


def test_a_result_tells_how_long_it_waited_for_a_rate_limit(
    host: Host, serve: Serve, redis: Redis, redis_url: str
) -> None:
    """Another attempt is refused while this one plans."""
    host.settings = host.settings.model_copy(update={"broker_url": redis_url})
    pace = AccountPace(breaker=Breaker(client=redis))
    refused = PacedCall(model="m", input_tokens=1, most_output=1, counts_cached=True)

    def brain(seen: Seen) -> Say:
        if planning(seen):
            pace.ask("local", refused)
            failure = ModelFailed("x", trouble="rate_limit", retry_after_s=1.0)
            pace.settle("local", refused, "refused", Usage(), failure)
        return plain(seen)

    serve(brain)
    done = work(host)
    assert done.outcome == "candidate" and done.waited_s > 0.5, done


def test_a_refusal_is_a_refusal(host: Host, serve: Serve) -> None:
    """It counts neither as the task's failure nor as silence."""
    serve(lambda seen: REFUSAL)
    assert work(host).outcome == "refused"


def test_an_overflow_of_execute_begins_it_afresh_with_what_was_done(host: Host, serve: Serve) -> None:
    """This happens once. The written files are still there, and the model is told so."""
    overflowed: list[bool] = []

    def brain(seen: Seen) -> Say:
        if planning(seen):
            return Say(calls=[PLAN])
        if seen.answered == 1 and not overflowed:
            overflowed.append(True)
            return OVERFLOW_MIDWAY
        return Say(calls=[FINISH if overflowed else RENAME])

    server = serve(brain)
    assert work(host).outcome == "candidate"
    last = server.seen[-1].texts[0]
    assert "grew too long" in last and "a.py" in last.split("files_written")[1]
    assert server.invalid == []


def test_limits_of_money_hold(host: Host, serve: Serve) -> None:
    """No call is made that the limit does not cover."""
    server = serve(lambda seen: Say(calls=[("read_file", {"path": f"{seen.answered}.py"})]))
    done = work(host, limits=Limits(cost_usd=0.01))
    assert done.outcome == "limits_spent" and "0.01 USD" in done.detail, done
    assert done.spent.cost_usd is not None and done.spent.cost_usd <= 0.01
    assert server.seen


def test_a_script_with_a_plan_is_led_through_both_phases(host: Host) -> None:
    """A scripted model obeys the same phases if its author wrote turns for them."""
    script = (
        "turns:\n"
        "  - phase: plan\n"
        "    calls: [{tool: commit_plan, plan: rename, files_to_modify: [a.py]}]\n"
        "  - phase: execute\n"
        "    calls: [{tool: edit_file, path: a.py, old: old, new: new}]\n"
        "  - phase: execute\n"
        "    calls: [{tool: finish, summary: renamed}]\n"
    )
    done = work(host, agent=ScriptedAgent(script=script))
    assert (done.outcome, done.models) == ("candidate", ("scripted",)), done.detail
    assert [entry.phase for entry in host.transcript() if isinstance(entry, ConversationStarted)] == ["plan", "execute"]


def test_what_was_sent_once_is_sent_again_byte_for_byte(host: Host, serve: Serve) -> None:
    """
    Within a phase tools and system do not change, and each request begins with all of the one before.

    At most four places are marked for the cache.
    """

    def brain(seen: Seen) -> Say:
        if planning(seen):
            return Say(calls=[("read_file", {"path": "a.py"})]) if seen.answered < 2 else Say(calls=[PLAN])
        steps = [RENAME, *[("bash", {"command": f"echo {number} >> b.py"}) for number in range(6)], FINISH]
        return Say(thinking="so", calls=[steps[seen.answered]])

    server = serve(brain)
    assert work(host).outcome == "candidate"
    for phase in (True, False):
        bodies = [seen.body for seen in server.seen if planning(seen) is phase]
        assert len({"".join(unmarked([*body["tools"], *body["system"]])) for body in bodies}) == 1
        assert all(1 <= json.dumps(body).count('"cache_control"') <= 4 for body in bodies)
        for before, after in pairwise([unmarked(body["messages"]) for body in bodies]):
            assert after[: len(before)] == before
    asked = [entry.turn.usage for entry in host.transcript() if isinstance(entry, TurnSaid) and entry.turn.id]
    assert all(usage.cached_tokens > 0 for usage in asked[1:3])
    assert asked[-1].hit_rate > 0.9


def test_what_all_tasks_are_told_is_the_same_for_all(host: Host, serve: Serve) -> None:
    """The first system block and the first tools do not depend on task, skill or model."""
    server = serve(plain)
    work(host)
    work(host, order_id="r.u.1", task="u", title="Another", agent=BuiltinAgent(skill="tester"))
    first, second = (seen.body for seen in (server.seen[0], server.seen[4]))
    assert first["system"][0]["text"] == second["system"][0]["text"]
    assert first["tools"][0]["name"] == second["tools"][0]["name"]


def unmarked(messages: list[dict[str, Any]]) -> list[str]:
    """Return messages as bytes, without the marks for the cache, which move."""
    return [re.sub(r', "cache_control": \{[^}]*\}', "", json.dumps(message)) for message in messages]


def test_configured_servers_serve_the_phases_they_are_named_for(host: Host, serve: Serve) -> None:
    """Their tools come after all others. A server that does not start is left out, as the transcript says."""
    server_file = Path(__file__).parents[2] / "tools" / "mcp" / "mcp_server.py"
    tools = host.folder / "tools.yaml"
    tools.write_text(
        "mcp_servers:\n"
        f"  - {{name: t, command: [{sys.executable}, {server_file}]}}\n"
        "  - {name: gone, command: [no-such-program]}\n"
    )
    server = serve(plain)
    host.settings = host.settings.model_copy(update={"tools": tools})
    assert work(host).outcome == "candidate"
    by_phase = [[name for name in seen.tools if name.startswith("mcp__")] for seen in server.seen]
    assert by_phase[0] == by_phase[1] == [] and by_phase[2] and by_phase[2] == by_phase[3]
    assert server.seen[0].tools[:3] == ["read_file", "glob", "grep"]
    assert any(isinstance(entry, Noted) and "gone is left out" in entry.text for entry in host.transcript())


def test_a_wrong_file_of_the_hosts_needs_a_person(host: Host, serve: Serve) -> None:
    """The message names the line. The task is neither blamed nor tried again."""
    tools = host.folder / "tools.yaml"
    tools.write_text("mcp_servers: [{name: t}]\n")
    serve(plain)
    host.settings = host.settings.model_copy(update={"tools": tools})
    done = work(host)
    assert (done.outcome, done.question) == ("needs_human", "") and "tools.yaml:1" in done.detail, done
    again = work(host, agent=ScriptedAgent(script="turns: [{say: x}]"))
    assert again.outcome == "needs_human", "the scripted model's tools are the host's, too"


def test_an_answer_to_another_question_is_none(host: Host, serve: Serve) -> None:
    """An answer belongs to one question and is never used for the next."""

    def brain(seen: Seen) -> Say:
        if planning(seen):
            return Say(calls=[PLAN])
        return Say(calls=[("ask", {"question": "delete the database?"})])

    serve(brain)
    replies = (Reply(question="which name?", answer="yes, do so", by="ann"),)
    done = work(host, replies=replies)
    assert (done.outcome, done.question) == ("needs_human", "delete the database?")


def test_a_question_rests_though_the_hub_was_away_for_a_moment(host: Host, serve: Serve) -> None:
    """The push is repeated until the next attempt can find the work."""
    served = serve(lambda seen: Say(calls=[PLAN if planning(seen) else ("ask", {"question": "new or newer?"})]))
    hook = host.hub / "hooks" / "update"
    hook.parent.mkdir(exist_ok=True)
    count = host.folder / "count"
    hook.write_text(f'#!/bin/sh\ncase "$1" in */progress/*) echo x >> {count}; test $(wc -l < {count}) -gt 4;; esac\n')
    hook.chmod(0o755)
    done = work(host)
    assert (done.outcome, done.resumable) == ("needs_human", True)
    assert count.read_text().count("x") > 4 and served.seen


def test_a_command_in_the_background_does_not_outlive_the_work(host: Host, serve: Serve) -> None:
    """Nothing may change the files while they are verified or afterwards."""
    loop = "while :; do if test -e ../../judging; then sed -i s/old/new/ a.py; else sed -i s/new/old/ a.py; fi; done"

    def brain(seen: Seen) -> Say:
        if planning(seen):
            return Say(calls=[PLAN])
        steps = [("bash_background", {"command": loop}), ("bash", {"command": "echo 'x = 2' > b.py"}), FINISH]
        return Say(calls=[steps[min(seen.answered, 2)]])

    serve(brain)
    judging = f"touch {host.settings.cache}/judging; sleep 0.5; grep -q new a.py"
    done = work(host, acceptance=(judging.replace(str(host.settings.cache), "../.."),))
    assert done.outcome == "verify_failed", done


def test_what_acceptance_leaves_behind_does_not_land(host: Host, serve: Serve) -> None:
    """Reports and caches do not count as work either."""
    serve(plain)
    done = work(host, acceptance=("echo report > report.xml; grep -q new a.py",))
    assert (done.outcome, done.paths) == ("candidate", ("a.py",))


def test_a_photograph_that_failed_is_taken_again(host: Host, serve: Serve) -> None:
    """If git cannot read the files for a moment, old files are never saved with a newer conversation."""
    broke = ("bash", {"command": "sed -i s/old/new/ a.py; git init -q sub; touch sub/x"})
    mended = ("bash", {"command": "rm -rf sub; true"})

    def brain(seen: Seen) -> Say:
        if planning(seen):
            return Say(calls=[PLAN])
        steps = [broke, ("ask", {"question": "with it?"}), mended, ("ask", {"question": "go on?"}), FINISH]
        return Say(calls=[steps[seen.answered]])

    serve(brain)
    reply = Reply(question="with it?", answer="no")
    assert not work(host).resumable, "what is there cannot be kept"
    asked = work(host, resent=True, replies=(reply,))
    assert asked.outcome == "needs_human", asked
    done = work(host, attempt=2, resumes=1, replies=(Reply(question="go on?", answer="yes"),))
    assert (done.outcome, done.paths) == ("candidate", ("a.py",)), done.detail


def test_verification_ends_with_the_attempts_time(host: Host, serve: Serve) -> None:
    """All acceptance commands together have the remaining time."""
    serve(plain)
    began = time.monotonic()
    done = work(host, acceptance=("sleep 20", "sleep 20"), limits=Limits(wall_s=4))
    assert done.outcome == "limits_spent", done
    assert time.monotonic() - began < 12


def test_a_key_that_a_command_prints_is_hidden(host: Host, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is hidden from the model, in the transcript and in the log."""
    key = "sk-a-long-secret-1234"
    monkeypatch.setenv(KEY, key)
    halves = f"printf '%s%s\\n' {key[:9]} {key[9:]}"
    steps = [("bash", {"command": f"sed -i s/old/new/ a.py; {halves}"}), FINISH]
    server = serve(lambda seen: Say(calls=[PLAN if planning(seen) else steps[seen.answered]]))
    done = work(host)
    assert done.outcome == "candidate"
    assert "[key hidden]" in server.seen[-1].results[0]
    assert key not in str(host.transcript()) and key not in Path(done.log).read_text()


def test_an_answer_is_never_asked_to_be_longer_than_the_model_gives(host: Host, serve: Serve) -> None:
    """This holds however large the budget is."""
    server = serve(plain)
    assert work(host, limits=Limits(cost_usd=1000, tokens=90_000_000)).outcome == "candidate"
    assert {seen.body["max_tokens"] for seen in server.seen} == {4000}


RED = """
turns:
  - calls: [{tool: write_file, path: a.py, content: "x"}]
  - calls: [{tool: finish, summary: done}]
"""


@pytest.mark.parametrize(
    ("script", "acceptance", "outcome", "detail"),
    [
        (RED, ("echo boom; exit 3",), "verify_failed", "'echo boom; exit 3' exited with 3"),
        ("turns: [{calls: [{tool: finish, summary: done}]}]", (), "no_change", "changed no file"),
    ],
)
def test_a_script_with_nothing_more_to_say_leaves_the_work_as_it_was_found(
    host: Host, script: str, acceptance: tuple[str, ...], outcome: str, detail: str
) -> None:
    """The outcome is the harness's finding, not the end of the script."""
    done = work(host, agent=ScriptedAgent(script=script), acceptance=acceptance)
    assert done.outcome == outcome and detail in done.detail, done
    assert ("boom" in done.log_tail) == (outcome == "verify_failed")


def test_what_was_judged_is_not_gone_on_with(host: Host, serve: Serve) -> None:
    """An attempt that was returned with reasons is over, although the hub still has its work."""
    stopping: list[bool] = []

    def brain(seen: Seen) -> Say:
        if not planning(seen) and not stopping:
            stopping.append(True)
        return plain(seen)

    serve(brain)
    work(host, stop=lambda: bool(stopping))
    reason = ReasonPack(attempt=1, kind="verify_failed", summary="it was red")
    work(host, attempt=3, resumes=2, reasons=(reason,))
    entries = host.transcript(3)
    assert next(entry.phase for entry in entries if isinstance(entry, ConversationStarted)) == "plan"
    assert not any(isinstance(entry, TurnSaid) and "interrupted" in entry.turn.text for entry in entries)


def test_a_red_phase_stays_confirmed_over_an_interruption(host: Host, serve: Serve) -> None:
    """Another process need not see the test fail again, but must see it pass."""
    test = "import a\n\n\ndef test_new():\n    assert a.new() == 1\n"
    run = f"{sys.executable} -m pytest -q -p no:cacheprovider --disable-plugin-autoload test_a.py"
    steps: list[tuple[str, dict[str, str]]] = [
        ("write_file", {"path": "test_a.py", "content": test}),
        ("confirm_red_phase", {"command": run}),
        ("ask", {"question": "go on?"}),
        RENAME,
        FINISH,
    ]
    server = serve(lambda seen: Say(calls=[PLAN if planning(seen) else steps[seen.answered]]))
    agent = BuiltinAgent(red_first=True)
    assert work(host, agent=agent).outcome == "needs_human"
    done = work(host, attempt=2, resumes=1, agent=agent, replies=(Reply(question="go on?", answer="yes"),))
    assert done.outcome == "candidate", done.detail
    assert sum("confirmed" in result for result in server.seen[-1].results) == 1


def test_trouble_with_the_hub_tells_what_was_used_until_then(host: Host, serve: Serve) -> None:
    """The candidate could not be pushed, and the cost of the models is reported."""
    server = serve(plain)
    hook = host.hub / "hooks" / "update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\ncase "$1" in */orders/*) exit 1;; esac\n')
    hook.chmod(0o755)
    done = work(host)
    assert (done.outcome, done.resumable) == ("infrastructure", True), done
    assert done.spent.turns == len(server.seen) and done.spent.tokens > 0


@pytest.mark.parametrize(
    ("verdict", "outcome"), [("granted", "candidate"), ("queued", "candidate"), ("refused", "out_of_scope")]
)
def test_what_was_changed_is_asked_for_when_it_is_verified(
    host: Host, serve: Serve, redis_url: str, redis: Redis, verdict: str, outcome: str
) -> None:
    """
    A refused path ends the attempt after one more try. A queued path lets it wait as a candidate. A granted path is
    asked for once.
    """
    asked: list[tuple[str, ...]] = []
    done = threading.Event()

    def orchestrator() -> None:
        after = "0-0"
        while not done.is_set():
            for entry, text in read(redis, "r", after=after, wait_s=0.1):
                after = entry
                if '"paths_asked"' not in text:
                    continue
                question = PathRequest.model_validate_json(text)
                asked.append(question.paths)
                said = "granted" if len(asked) == 1 else verdict
                why = "that is not yours" if said == "refused" else ""
                reply(redis, question.order_id, question.number, PathsAnswer(verdict=said, why=why))

    thread = threading.Thread(target=orchestrator)
    thread.start()
    steps = [[RENAME, ("bash", {"command": "echo 'x = 2' > b.py"})]]
    serve(lambda seen: Say(calls=[PLAN] if planning(seen) else [*steps, [FINISH]][min(seen.answered, 1)]))
    host.settings = host.settings.model_copy(update={"broker_url": redis_url})
    try:
        result = work(host, files=("a.py",))
    finally:
        done.set()
        thread.join()
    assert result.outcome == outcome, result
    assert asked[:2] == [("a.py",), ("b.py",)], "what was granted is not asked for again"
    if verdict == "refused":
        assert "that is not yours" in result.detail
