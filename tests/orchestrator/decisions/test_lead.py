"""The replies to a lead's requests, decided from plan and state alone."""

from collections.abc import Callable
from typing import Any

import pytest
from plans import answered, begun, course, follow, result, sent, task

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.lead.requests import first_reply
from forgepool.orchestrator.decisions.lead.results import bring_headers
from forgepool.orchestrator.decisions.orders.kept_parts import keep_apart
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.requests import grant_request
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.plan.budget import Budget, Use
from forgepool.orchestrator.plan.document import Task
from forgepool.orchestrator.run.dispatch import order
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IllegalStep
from forgepool.workers.agents.briefing.system_prompt import builtin_skill, system_blocks
from forgepool.workers.agents.lead.rules import LeadStanding
from forgepool.workers.agents.lead.tools import lead_tools
from forgepool.workers.context.transcript.usage import Gauge, count_fixed_characters, lengths
from forgepool.workers.llm.messages import Text, ToolCall, ToolResult, Turn, user
from forgepool.workers.llm.provider import ModelRequest
from forgepool.workers.schema.orders import BuiltinAgent, CliAgent, Limits, ReasonPack, ScriptedAgent, Spent
from forgepool.workers.schema.policy_rules import MatchEntry, RuleEntry
from forgepool.workers.schema.reports import DispatchedTask, LeadRequest, LeadSaid, Report
from forgepool.workers.tools.toolset import reading

OBJECTIVE = "The parser keeps the time zone of every date that it reads."
NOTES = "It drops the zone without a word today; three callers rely on the name of the function."
SCRIPT = ScriptedAgent(script="turns: [{say: hm}]")


def leader(name: str = "lead", led: Any = SCRIPT, **said: Any) -> Task:
    return task(name, agent=SCRIPT, leads=led, answers=True, **said)


def asked(**request: Any) -> list[e.Event]:
    """The events by which a lead has asked for something and rests."""
    said = LeadSaid(request=LeadRequest(**{"number": 1, **request}))
    return [e.OrderAnswered(task="lead", result=result("lead", 1, "waiting", lead=said, resumable=True))]


def dispatch(*names: str, **more: Any) -> dict[str, Any]:
    tasks = [DispatchedTask(id=one, objective=OBJECTIVE, notes=NOTES, **more) for one in names]
    return {"do": "dispatch", "tasks": tuple(tasks)}


def decided(of: PlanIndex, state: RunState) -> list[e.Event]:
    """Decide until the lead may go on, or rests on; nothing is started."""
    found: list[e.Event] = []
    while events := [one for one in decide(of.grow_with(state), state, now=200.0, order_slots=0, draining=True)]:
        follow(state, *events)
        found += events
    return found


def replied(events: list[e.Event]) -> e.LeadReplied:
    (reply,) = [one for one in events if isinstance(one, e.LeadReplied)]
    return reply


def resting(of: PlanIndex, *events: e.Event, **request: Any) -> RunState:
    return begun(of, *events, sent("lead"), *asked(**request))


def test_dispatched_tasks_are_added_under_the_requests_key_and_receipted() -> None:
    of = course(leader())
    state = resting(of, **dispatch("t1", files=("dates.py",), acceptance=("pytest -q",)))
    assert (state.tasks["lead"].phase, state.outstanding()) == ("waiting", {})
    added, reply = decided(of, state)
    assert isinstance(added, e.TasksAdded) and (added.by, added.request) == ("lead", "lead#1")
    (one,) = added.tasks
    assert (one.title, one.files, one.acceptance, one.agent) == (OBJECTIVE, ("dates.py",), ("pytest -q",), SCRIPT)
    assert OBJECTIVE in one.description and NOTES in one.description
    assert isinstance(reply, e.LeadReplied) and reply.reply.text == "Added: t1.\n\nOpen: t1 (pending)."
    assert (state.tasks["lead"].phase, state.tasks["t1"].phase) == ("pending", "pending")


def test_the_same_request_adds_once_however_often_it_is_asked() -> None:
    """Its worker died after the request was answered: the next order asks the same again."""
    of = course(leader())
    state = resting(of, **dispatch("t1"))
    first = decided(of, state)
    follow(
        state,
        sent("lead", 2),
        *(
            one.model_copy(update={"result": one.result.model_copy(update={"order_id": "r-1.lead.2"})})
            for one in asked(**dispatch("t1"))
        ),
    )
    again = decided(of, state)
    assert [one.kind for one in first] == ["tasks.added", "lead.replied"]
    assert [one.kind for one in again] == ["lead.replied"] and replied(again).reply.text.startswith("Added: t1.")


@pytest.mark.parametrize(
    ("led", "fields", "sentence"),
    [
        (SCRIPT, {"needs": ("nowhere",)}, "needs 'nowhere'"),
        (SCRIPT, {"files": ("/etc/passwd",)}, "begins at the root of the disk"),
        (SCRIPT, {"skill": "tester"}, "'t1' has a skill, which its agent (scripted) does not take; leave it out"),
        (SCRIPT, {"retry_of": "gone"}, "'t1' is to try 'gone' again, which is no task of this run"),
        (CliAgent(program="claude"), {"answers": True}, "'t1' is to answer, and its agent (cli) cannot"),
    ],
)
def test_what_the_plans_reader_refuses_comes_back_as_sentences(led: Any, fields: Any, sentence: str) -> None:
    of = course(leader(led=led))
    reply = replied(decided(of, resting(of, **dispatch("t1", **fields))))
    assert reply.reply.text.startswith("Nothing was added. Mend this, and dispatch again:\n- ")
    assert sentence in reply.reply.text and "dispatch:" not in reply.reply.text


@pytest.mark.parametrize(
    "fields",
    [lambda one: {"needs": (one,)}, lambda one: {"needs": (f"{one}:full",)}, lambda one: {"retry_of": one}],
    ids=["needs", "needs_full", "retry_of"],
)
@pytest.mark.parametrize("other", ["lead", "after", "far"])
def test_no_task_is_added_that_would_wait_for_the_lead_itself(
    other: str, fields: Callable[[str], dict[str, Any]]
) -> None:
    of = course(leader(), task("after", "lead"), task("far", "after"))
    reply = replied(decided(of, resting(of, **dispatch("t1", **fields(other))))).reply
    assert f"- 't1' names '{other}', which is yourself or waits for your end; take it out" in reply.text


def test_dispatched_tasks_keep_the_bounds_of_their_lead_and_get_no_grant() -> None:
    bounds: dict[str, Any] = {
        "policy": (RuleEntry(match=MatchEntry(tool="run_command"), decision="deny", reason="no commands here"),),
        "unattended": "park",
        "runs_on": ("inhouse",),
        "limits": Limits(cost_usd=0.5, turns=20),
        "attempts": 1,
        "env": {"TZ": "UTC"},
        "criteria": ("The public names stay.",),
    }
    of = course(leader(**bounds, grants=("tests/**",), waive=("secrets",), network=("pypi.org",)))
    asked_for = dispatch("writes", files=("a.py",))["tasks"] + dispatch("tells", answers=True)["tasks"]
    added, _ = decided(of, resting(of, do="dispatch", tasks=asked_for))
    assert isinstance(added, e.TasksAdded)
    writes, tells = added.tasks
    assert {name: getattr(writes, name) for name in bounds} == bounds
    assert {name: getattr(tells, name) for name in bounds} == bounds | {"criteria": ()}
    assert {(one.grants, one.waive, one.network) for one in added.tasks} == {((), (), ())}


def test_every_character_of_a_dispatch_reaches_the_task() -> None:
    words = '\U0001f680 \U0010ffff \u00fc \u2028 \ufeff \x7f \x85 \t \\u0041 \\ " end'
    of = course(leader())
    one = DispatchedTask(id="t1", objective=f"{OBJECTIVE} {words}", notes=f"{NOTES} {words}")
    added, _ = decided(of, resting(of, do="dispatch", tasks=(one,)))
    assert isinstance(added, e.TasksAdded)
    assert added.tasks[0].description == f"{one.objective}\n\n{one.notes}"


def test_an_id_that_the_run_has_is_refused() -> None:
    of = course(leader(), task("t1"))
    reply = replied(decided(of, resting(of, **dispatch("t1"))))
    assert "the run has a task 't1' already" in reply.reply.text


def test_a_lead_adds_fifty_tasks_and_no_more() -> None:
    of = course(leader())
    state = resting(of, **dispatch(*(f"t{at}" for at in range(20))))
    decided(of, state)
    state.additions["lead#0"] = 31
    follow(state, sent("lead", 2))
    said = LeadSaid(request=LeadRequest(number=2, **dispatch("more")))
    follow(state, e.OrderAnswered(task="lead", result=result("lead", 2, "waiting", lead=said)))
    assert "a lead may add 50 to one run, and 51 are added" in replied(decided(of, state)).reply.text


def test_tasks_that_write_the_same_files_are_told_at_once() -> None:
    of = course(leader())
    reply = replied(decided(of, resting(of, **dispatch("t1", "t2", files=("src/a.py",)))))
    assert "'t1' and 't2' both may write src/a.py: they run one after the other." in reply.reply.text


def test_a_skill_becomes_the_agents_and_a_retry_says_how_the_first_one_ended() -> None:
    of = course(leader(led=BuiltinAgent(model="m")), task("t0", agent=BuiltinAgent()))
    failed = e.TaskFailed(task="t0", reason=ReasonPack(attempt=1, kind="agent_failed", summary="it broke off"))
    state = resting(
        of, sent("t0"), answered("t0", 1, "agent_failed"), failed, **dispatch("t1", skill="tester", retry_of="t0")
    )
    (added, _) = decided(of, state)
    assert isinstance(added, e.TasksAdded)
    assert added.tasks[0].agent == BuiltinAgent(model="m", skill="tester")
    assert "This is another try of 't0', which ended so: it broke off" in added.tasks[0].description


def test_collect_rests_until_there_is_a_result_and_brings_headers_alone() -> None:
    of = course(leader(), task("a", agent=SCRIPT, answers=True), task("b"))
    state = resting(of, do="collect", what="ready")
    assert decided(of, state) == []
    report = Report(summary="It is in a.py.", output="x" * 50_000, missing=("why",))
    follow(state, sent("a"), e.OrderAnswered(task="a", result=result("a", 1, "reported", report=report)))
    reply = replied(decided(of, state)).reply
    assert [(one.task, one.ended) for one in reply.results] == [("a", "reported")]
    assert reply.text.startswith("a | reported | no commit | nothing red | 0.00 USD | missing 1 | It is in a.py.")
    assert (reply.open, len(reply.text) < 400) == (("b",), True)


def test_collect_all_waits_for_everything_but_what_waits_for_the_lead_itself() -> None:
    of = course(leader(), task("a"), task("b"), task("after", "lead"))
    state = resting(of, do="collect", what="all")
    follow(state, e.TaskCancelled(task="a"))
    assert decided(of, state) == []
    follow(state, e.TaskCancelled(task="b"))
    reply = replied(decided(of, state)).reply
    assert ([one.task for one in reply.results], reply.open) == (["a", "b"], ())


@pytest.mark.parametrize("what", ["lead", "after", "far"])
def test_a_lead_that_collects_what_waits_for_it_is_told_so_and_does_not_rest_for_ever(what: str) -> None:
    of = course(leader(), task("a"), task("after", "lead"), task("far", "after"))
    reply = replied(decided(of, resting(of, do="collect", what=what))).reply
    assert reply.text.startswith(
        f"'{what}' is yourself or waits for your end, and has no result for you; open are: a\n"
    )


def test_a_failed_dependency_is_passed_on() -> None:
    of = course(leader(), task("a", attempts=1), task("b", "a"))
    state = resting(of, sent("a"), answered("a", 1, "agent_failed"), do="collect", what="all")
    reply = replied(decided(of, state)).reply
    assert "b | blocked | no commit | nothing red | 0.00 USD | missing 0 | Dependency a failed" in reply.text


def test_what_is_collected_is_not_brought_again_unless_it_ends_otherwise() -> None:
    of = course(leader(), task("a"))
    state = resting(of, e.TaskCancelled(task="a"), do="collect", what="ready")
    decided(of, state)
    assert first_reply(of, state, "lead").open == ()
    follow(state, e.TaskRetried(task="a"))
    assert first_reply(of, state, "lead").open == ("a",)


def test_a_persons_word_wakes_a_lead_that_collects_and_is_told_once() -> None:
    of = course(leader(), task("a"))
    state = resting(of, do="collect", what="all")
    follow(state, *grant_request(of, state, PersonRequest(do="say", task="lead", text="leave b.py alone", by="ann")))
    reply = replied(decided(of, state)).reply
    assert "A person says (ann): leave b.py alone" in reply.text and reply.results == ()
    assert state.lead.heard == 1


def test_a_lead_that_begins_afresh_is_told_again_what_people_said() -> None:
    of = course(leader(), task("a"))
    said = grant_request(of, begun(of), PersonRequest(do="say", task="lead", text="leave b.py alone", by="ann"))
    state = resting(of, *said, do="read", what="a")
    assert "leave b.py alone" in replied(decided(of, state)).reply.text
    failed = ReasonPack(attempt=1, kind="agent_failed", summary="it broke off")
    afresh = sent("lead", 2).model_copy(update={"leads": True})
    again = LeadSaid(request=LeadRequest(number=2, do="read", what="a"))
    answer = e.OrderAnswered(task="lead", result=result("lead", 2, "waiting", lead=again))
    follow(state, e.TaskFailed(task="lead", reason=failed), e.TaskRetried(task="lead", afresh=True), afresh, answer)
    assert "A person says (ann): leave b.py alone" in replied(decided(of, state)).reply.text


def test_cancel_ends_tasks_with_the_leads_reason_and_says_what_it_could_not_end() -> None:
    of = course(leader(), task("a"), task("b"))
    state = resting(of, e.TaskCancelled(task="b"), do="cancel", ids=("a", "b", "gone"), why="a has become needless")
    cancelled, reply = decided(of, state)
    assert isinstance(cancelled, e.TaskCancelled) and (cancelled.task, cancelled.by) == ("a", "lead")
    assert state.tasks["a"].detail == "cancelled by lead: a has become needless"
    assert isinstance(reply, e.LeadReplied)
    assert "- a: cancelled\n- b: cancelled\n- gone: no task of yours" in reply.reply.text


def test_a_whole_result_is_brought_with_the_next_order() -> None:
    of = course(leader(), task("a", agent=SCRIPT, answers=True))
    report = Report(summary="short", output="THE WHOLE")
    answer = e.OrderAnswered(task="a", result=result("a", 1, "reported", report=report))
    state = resting(of, sent("a"), answer, e.TaskReported(task="a", report=report), do="read", what="a", full=True)
    assert replied(decided(of, state)).reply.read == "a"
    follow(state, sent("lead", 2))
    sent_order = order(of, state, state.tasks["lead"], state.outstanding()["r-1.lead.2"], now=1.0, resent=False)
    assert [(one.task, one.report) for one in sent_order.priors] == [("a", report)]
    assert [one.number for one in sent_order.lead] == [0, 1]


def test_the_first_order_tells_the_plan_that_stands() -> None:
    of = course(leader(), task("a", files=("a.py",), title="do a"))
    state = begun(of, sent("lead"))
    sent_order = order(of, state, state.tasks["lead"], state.outstanding()["r-1.lead.1"], now=1.0, resent=False)
    (told,) = sent_order.lead
    assert (told.number, told.text, told.open) == (0, "- a | pending | a.py | do a", ("a",))


def test_a_reply_is_given_once() -> None:
    of = course(leader(), task("a"))
    state = resting(of, e.TaskCancelled(task="a"), do="collect", what="all")
    reply = replied(decided(of, state))
    with pytest.raises(IllegalStep):
        follow(state, reply)


def test_a_lead_that_is_lost_twice_in_a_row_is_given_up_and_the_others_go_on() -> None:
    of = course(leader(), task("a"))
    state = begun(of, sent("lead"), e.MessageLost(message_id="r-1.lead.1", why="the worker died"))
    assert decided(of, state) == []
    follow(state, sent("lead", 2), e.MessageLost(message_id="r-1.lead.2", why="the worker died"))
    (failed,) = decided(of, state)
    assert isinstance(failed, e.TaskFailed) and failed.task == "lead"
    assert failed.reason.summary == "its worker was lost 2 times in a row; the run goes on without it"
    assert state.tasks["a"].phase == "pending"


def test_a_tenth_of_the_budget_is_kept_apart_for_the_lead() -> None:
    lead = task("lead", agent=BuiltinAgent(), leads=BuiltinAgent(), answers=True)
    of = course(lead, task("a", agent=BuiltinAgent()), budget=Budget(usd=10.0))
    state = begun(of)
    assert (of.ledger_for(state, "a").left_usd, of.ledger_for(state, "lead").left_usd) == (9.0, 10.0)
    follow(state, e.TaskCancelled(task="lead"))
    assert of.ledger_for(state, "a").left_usd == 10.0


def test_what_is_kept_apart_follows_the_known_calls_of_the_lead_up_to_a_quarter_of_the_budget() -> None:
    """A lost attempt leaves only its reservation, which does not measure the cost of a call."""
    lost = Use(reserved_usd=4.0, reserved_tokens=400, ended="lost")
    under_way = Use(reserved_usd=3.0, reserved_tokens=300)
    answered_one = Use(reserved_usd=3.0, reserved_tokens=300, spent=Spent(turns=2, cost_usd=0.1, input_tokens=10))
    cap = Budget(usd=10.0, tokens=1000)
    kept = keep_apart(cap, (lost, under_way, answered_one))
    assert (kept.usd, kept.tokens) == (pytest.approx(0.15), 15)
    dear = Use(spent=Spent(turns=2, cost_usd=4.0, input_tokens=400))
    kept = keep_apart(cap, (dear,))
    assert (kept.usd, kept.tokens) == (2.5, 250)
    unpriced = Use(spent=Spent(turns=98, cost_usd=None))
    assert keep_apart(Budget(usd=1.0), (unpriced, answered_one)).usd == pytest.approx(0.15)


def test_forty_results_keep_the_leads_view_under_forty_percent_of_its_window() -> None:
    """By the context engine's own estimate, with headers as long as they can be and nothing shortened."""
    names = [f"task-{at:02}" for at in range(40)]
    described = f"{OBJECTIVE}\n\n{NOTES}" * 4
    tasks = [task(name, description=described, files=(f"src/{name}.py",)) for name in names]
    of = course(leader(), *tasks)
    state = begun(of, *(e.TaskCancelled(task=name, by="lead", why="word " * 200) for name in names))
    turns = [user(Text(text="the card " * 500))]
    for at, name in enumerate(names):
        call = ToolCall(
            id=f"c{at}",
            name="dispatch",
            arguments={"tasks": [{"id": name, "objective": OBJECTIVE * 3, "notes": NOTES * 4}]},
        )
        ready = ToolCall(id=f"r{at}", name="collect", arguments={"what": "ready"})
        weighed = ToolCall(
            id=f"w{at}", name="checkpoint", arguments={"changed": [NOTES] * 3, "open": [NOTES], "in_tension": [NOTES]}
        )
        _, headers = bring_headers(of, state, [state.tasks[name]])
        assert len(headers[0]) <= 600
        for one, said in ((call, "Added."), (ready, headers[0]), (weighed, "OK")):
            turns.append(Turn(role="assistant", parts=(Text(text=NOTES), one)))
            turns.append(user(ToolResult(call_id=one.id, text=f"{said}\n\n{'open ' * 40}")))
    tools = reading((), lead_tools(LeadStanding, lambda task: ()))
    like = ModelRequest(
        system=system_blocks("lead", skill=builtin_skill("lead")),
        tools=tuple(tool.offer for tool in tools),
        turns=(),
        phase="plan",
    )
    gauge = Gauge(window_tokens=200_000, fixed_characters=count_fixed_characters(like))
    assert 0.1 < gauge.share(lengths(turns)) < 0.4
