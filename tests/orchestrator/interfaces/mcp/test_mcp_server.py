"""Other programs use Forgepool by the Model Context Protocol: the official client, the real process, real runs."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import mcp_client
import pytest
from kit import Machine, Repository, command, events_of, make_repository, wait_until, write_plan
from mcp.shared.exceptions import MCPError
from mcp.types import ElicitRequestParams, ElicitResult, Implementation, Request
from mcp_client import AnyTask, Era, McpCaller, TasksClient, call_over_http, talk
from plans import RUN, answered, course, sent, task
from web_home import ASKS_AND_WRITES, EVIL_BRANCH, RealHome, build_home

from forgepool.orchestrator.decisions.queue.intake import _author
from forgepool.orchestrator.decisions.queue.submissions import read_submission
from forgepool.orchestrator.interfaces.clients.results import clean_value, fill, page_of
from forgepool.orchestrator.interfaces.mcp.command import mcp as serve_client
from forgepool.orchestrator.interfaces.mcp.run_tasks import describe_task
from forgepool.orchestrator.journal.events import RunStarted, TaskParked, TaskReplied
from forgepool.orchestrator.journal.store import Journal
from forgepool.orchestrator.plan.budget import Budget
from forgepool.orchestrator.reports.home import HomeView
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import RunOptions, keep
from forgepool.workers.sandbox import tree
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.git.git import CommitId, Git

TOOLS = {
    *("check_plan", "simulate_plan", "run_plan", "status", "why", "attention", "answer", "retry", "cancel", "submit"),
    *("explain", "report", "transcript", "diff", "gate_check", "policy_explain"),
}
ERAS: tuple[Era, ...] = ("auto", "legacy")
CHECKS = [{"name": "readme", "run": "test -f README.md"}]


@pytest.fixture(scope="module")
def ended(copy_home: Callable[[Path], RealHome], tmp_path_factory: pytest.TempPathFactory) -> tuple[Machine, str]:
    """Return a home with a run that ended in every way, and whose texts are hostile. Tests only look at it."""
    folder = tmp_path_factory.mktemp("mcp")
    copied = copy_home(folder)
    shutil.rmtree(copied.machine.home / "runs" / copied.queue)
    (folder / "hub").symlink_to(copied.hub)
    return copied.machine, copied.run


def asking_plan(machine: Machine, **further: Any) -> Path:
    (machine.folder / "asks.yaml").write_text(json.dumps({"turns": ASKS_AND_WRITES}))
    tasks = [
        {"id": "lands", "agent": command("echo done > done.txt"), "files": ["done.txt"]},
        {"id": "asks", "agent": {"scripted": "asks.yaml"}, "files": ["asks.txt"]},
    ]
    return write_plan(machine.folder, {"name": "small", "checks": CHECKS, "tasks": tasks, "review": "none", **further})


def test_a_client_starts_a_plan_answers_its_question_and_reads_the_report(machine: Machine, hub: Repository) -> None:
    plan, repo = asking_plan(machine), str(hub.path)
    # The folder at hand may be a repository: its modules are not taken for those of Forgepool.
    (machine.folder / "typer.py").write_text("raise SystemExit('taken')")

    async def work(caller: McpCaller) -> str:
        preview = await caller.answer("check_plan", plan=str(plan), repo=repo)
        assert (preview["valid"], preview["tasks"], preview["problems"]) == (True, 2, [])
        begun = await caller.answer("run_plan", plan=str(plan), repo=repo, workers=2)
        run = str(begun["run"])
        status = await caller.ended(run)
        assert (status["done"], status["phases"]) == (1, {"landed": 1, "needs_human": 1})
        (row,) = (await caller.answer("attention"))["rows"]
        assert (row["run"], row["task"], row["cause"]) == (run, "asks", "question")
        why = await caller.answer("why", run=run, task="asks")
        assert why["question"] == "Tabs or spaces?" and why["command"] == f"forgepool answer {run} asks TEXT"
        assert (await caller.answer("answer", run=run, task="asks", text="tabs"))["resumed"] is True
        assert (await caller.ended(run))["outcome"] == "landed"
        assert (await caller.answer("attention"))["count"] == 0
        assert "## Landed" in (await caller.answer("report", run=run))["text"]
        assert "+done" in (await caller.answer("diff", run=run, task="lands"))["text"]
        assert "Tabs or spaces?" in (await caller.answer("transcript", run=run, task="asks", attempt=1))["text"]
        return run

    run = talk(machine, work, "--may", "approve")
    assert hub.landed("forgepool/small") == ["lands", "asks"]
    (replied,) = events_of(machine.journal(run), TaskReplied)
    assert (replied.reply.answer, replied.reply.by) == ("tabs", "tests (MCP)"), (
        "an answer is kept with the name of who gave it"
    )


def test_a_run_is_a_task_of_a_client_that_knows_tasks(machine: Machine, hub: Repository) -> None:
    """The call of `run_plan` ends with the run: its question came as input that the task required."""
    plan, tasks = asking_plan(machine), TasksClient(answer="tabs")

    async def work(caller: McpCaller) -> None:
        done = await caller.answer("run_plan", plan=str(plan), repo=str(hub.path), workers=2)
        assert (done["outcome"], done["phases"]) == ("landed", {"landed": 2})
        for method, said in (("tasks/get", "there is no run 'nope'"), ("tasks/cancel", "there is no run 'nope'")):
            request = Request[dict[str, Any], str](method=method, params={"taskId": "nope"})
            with pytest.raises(MCPError, match=said):
                await caller.client.session.send_request(request, AnyTask)

    talk(machine, work, "--may", "approve", extensions=[tasks])
    statuses = [task["status"] for task in tasks.seen]
    assert "input_required" in statuses and statuses[-1] == "completed", statuses
    (request,) = next(task for task in tasks.seen if task["status"] == "input_required")["inputRequests"].values()
    assert request["params"]["message"] == "asks asks: Tabs or spaces?"
    (replied,) = events_of(machine.journal(), TaskReplied)
    assert (replied.reply.answer, replied.reply.by) == ("tabs", "tests (MCP)")
    assert hub.landed("forgepool/small") == ["lands", "asks"]


def test_a_run_that_ended_with_an_open_question_requires_input(ended: tuple[Machine, str]) -> None:
    """Its answer makes the run go on, so a client that asks only now must not take it for completed."""
    machine, run = ended
    home = HomeView(Settings(home=machine.home, cache=machine.cache))
    told = home.view(run).look(describe_task)
    assert told["status"] == "input_required" and len(told["inputRequests"]) == 1


@pytest.mark.parametrize("era", ERAS)
def test_the_tools_are_listed_without_those_that_only_a_person_may_use(ended: tuple[Machine, str], era: Era) -> None:
    async def work(caller: McpCaller) -> None:
        tools = (await caller.client.list_tools()).tools
        assert {tool.name for tool in tools} == TOOLS
        assert all(tool.description for tool in tools)
        for name in ("approve", "reject"):
            refused = await caller.refusal(name, run=ended[1], task="writes", by="Ann")
            assert refused.startswith(f"there is no tool '{name}'")

    talk(ended[0], work, era=era)


def test_a_candidate_is_approved_only_by_a_server_that_may(tmp_path: Path, redis_program: str) -> None:
    machine, run = build_home(tmp_path)

    async def work(caller: McpCaller) -> None:
        assert {tool.name for tool in (await caller.client.list_tools()).tools} == TOOLS | {"approve", "reject"}
        assert "lacks the argument 'commit' and 'by'" in await caller.refusal("approve", run=run, task="writes")
        for other in ("", "0" * 40):
            said = await caller.refusal("approve", run=run, task="writes", by="Ann", commit=other)
            assert "'writes' has another candidate by now; look at it" in said
        seen = (await caller.answer("diff", run=run, task="writes"))["commit"]
        assert (await caller.answer("approve", run=run, task="writes", by="Ann", commit=seen))["resumed"] is True
        assert (await caller.ended(run))["phases"]["landed"] == 2

    talk(machine, work, "--may", "approve")


def test_a_run_outlives_the_client_that_started_it(machine: Machine, hub: Repository) -> None:
    tasks = [{"id": "slow", "agent": command("sleep 5; echo done > done.txt"), "files": ["done.txt"]}]
    plan = write_plan(machine.folder, {"name": "slow", "checks": CHECKS, "tasks": tasks})
    client = subprocess.Popen(
        [sys.executable, mcp_client.__file__, machine.folder, plan, hub.path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "FORGEPOOL_HOST": machine.name},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert client.stdout is not None
    run = client.stdout.readline().strip()
    assert run.startswith("slow-")
    # As clients end their servers: with all of its process group.
    for group in [*map(os.getpgid, tree.children(client.pid)), client.pid]:
        os.killpg(group, signal.SIGKILL)
    client.wait()
    client.stdout.close()
    assert "run.ended" not in [one.event.kind for one in machine.journal(run)], "it goes on after the client's death"

    async def work(caller: McpCaller) -> None:
        assert (await caller.ended(run))["outcome"] == "landed"

    talk(machine, work)
    assert hub.landed("forgepool/slow") == ["slow"]


WRONG = "version: 1\nname: x\ntasks:\n  - id: a\n    agent: {command: 'true'}\n    fils: [a]\n"
REFUSED: list[tuple[str, dict[str, object], str]] = [
    ("status", {"run": "nope"}, "there is no run 'nope'; the latest are: web-"),
    ("status", {"runn": "x"}, "status: there is no argument 'runn'; did you mean 'run'?"),
    ("statis", {}, "there is no tool 'statis'; did you mean 'status'?"),
    ("why", {"run": "web"}, "why lacks the argument 'task'; give it"),
    ("report", {"offset": -1}, "report: the argument 'offset' is wrong: Input should be greater than or equal to 0"),
    ("why", {"run": "web", "task": "nope"}, "has no task 'nope'; it has: lands"),
    (
        "answer",
        {"run": "web", "task": "fails", "text": "x"},
        "has no question, it is failed; waiting for an answer: asks",
    ),
    ("answer", {"run": "web", "task": "asks", "text": " "}, "the answer is empty"),
    ("retry", {"run": "web", "task": "lands"}, "there is nothing to retry about 'lands' now"),
    ("diff", {"run": "web", "task": "blocked"}, "has no diff: There is no change yet."),
    ("transcript", {"run": "web", "task": "lands"}, "its agent is 'command', which has no conversation"),
    ("run_plan", {"plan": "nope.yaml", "repo": "../hub"}, "nope.yaml: there is no such file"),
    (
        "run_plan",
        {"plan": WRONG, "repo": "../hub"},
        "plan:6: task 'a' has an unknown key 'fils'; did you mean 'files'?",
    ),
    ("simulate_plan", {"plan": WRONG, "repo": "nope"}, "nope"),
    ("policy_explain", {}, "there is nothing to judge"),
    ("submit", {"branch": "nope", "repo": "../hub"}, "'nope' is not a branch, tag or commit of"),
    ("explain", {"entry": "nope", "hub": "../hub"}, "has no queue"),
    ("gate_check", {"base": "main", "head": "nope", "repo": "../hub"}, "nope"),
]


def test_every_mistake_is_one_sentence(ended: tuple[Machine, str]) -> None:
    async def work(caller: McpCaller) -> None:
        for tool, arguments, sentence in REFUSED:
            said = await caller.refusal(tool, **arguments)
            assert sentence in said and "\n" not in said and "Error" not in said, (tool, said)
        with pytest.raises(Exception, match="there is no run 'nope'"):
            await caller.client.read_resource("forgepool://runs/nope/report")

    talk(ended[0], work)


def test_a_terminal_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person who typed the command would see nothing, and a Ctrl-C would not end it before an Enter."""
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb"), os.fdopen(theirs) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        with pytest.raises(CannotRun, match="`forgepool mcp` is started by a client"):
            serve_client()


def test_a_wrong_plan_is_answered_with_the_lines_of_its_mistakes(ended: tuple[Machine, str]) -> None:
    async def work(caller: McpCaller) -> None:
        answer = await caller.answer("check_plan", plan=WRONG, repo="../hub")
        mistake = {"line": 6, "sentence": "task 'a' has an unknown key 'fils'; did you mean 'files'?"}
        assert answer == {"valid": False, "mistakes": [mistake]}
        right = WRONG.replace("fils", "files") + "checks: {t: test -f README.md}\n"
        assert (await caller.answer("check_plan", plan=right, repo="../hub"))["valid"] is True
        assert (await caller.answer("simulate_plan", plan=right, repo="../hub"))["simulated"] is True

    talk(ended[0], work)


def test_answers_are_short_and_cannot_control_a_terminal(ended: tuple[Machine, str]) -> None:
    machine, run = ended

    async def work(caller: McpCaller) -> None:
        for tool, arguments in (
            ("status", {}),
            ("why", {"run": run, "task": "fails"}),
            ("why", {"run": run, "task": "asks"}),
            ("attention", {}),
            ("report", {}),
            ("transcript", {"run": run, "task": "asks"}),
            ("diff", {"run": run, "task": "lands"}),
        ):
            said = await caller.ask(tool, **arguments)
            assert not said.wrong
            assert "\\u001b" not in json.dumps(said.answer), tool
            assert tool != "status" or said.size < 2048
        read = await caller.client.read_resource(f"forgepool://runs/{run}/report")
        assert "\x1b" not in read.contents[0].model_dump()["text"]
        runs = await caller.client.read_resource("forgepool://runs")
        assert json.loads(runs.contents[0].model_dump()["text"])[0]["run"] == run
        schema = await caller.client.read_resource("forgepool://schema/plan")
        assert "tasks" in json.loads(schema.contents[0].model_dump()["text"])["properties"]
        spoken = await caller.client.read_resource(f"forgepool://runs/{run}/transcripts/asks")
        assert "Tabs or spaces?" in spoken.contents[0].model_dump()["text"]

    talk(machine, work)


def test_the_status_of_a_large_run_is_short(machine: Machine) -> None:
    settings = Settings(home=machine.home, cache=machine.cache)
    options = RunOptions(run=RUN, hub="/nowhere", target="t" * 200, workers=1, plan_file="p.yaml", plan_file_digest="")
    tasks = [task(f"{'long-name-' * 8}{number}", *(["asks-0"] if number % 2 else [])) for number in range(300)]
    asking = [f"asks-{number}" for number in range(20)]
    kept = keep(settings, options, course(*map(task, asking), *tasks, budget=Budget(usd=2.0)).plan)
    journal = Journal(kept.folder)
    journal.append([RunStarted(run=RUN, plan_digest="d", hub="/nowhere", target="t" * 200, tip="c0")], at=1.0)
    for name in asking:
        answer = answered(name, 1, "needs_human", question='ä"' * 300, resumable=True)
        journal.append([sent(name), answer, TaskParked(task=name, question='ä"' * 300, why="question")], at=2.0)
    journal.close()

    async def work(caller: McpCaller) -> None:
        said = await caller.ask("status", run=RUN)
        assert said.size < 2048 and said.answer["attention"] and said.answer["attention_left_out"] > 10
        assert said.answer["tasks"] == 320 and said.answer["waiting_left_out"] > 200
        assert (await caller.answer("attention"))["count"] == 21

    talk(machine, work)


def test_an_entry_of_a_queue_is_explained_and_retried(copy_home: Callable[[Path], RealHome], tmp_path: Path) -> None:
    copied = copy_home(tmp_path)
    queue = copied.queue

    async def work(caller: McpCaller) -> None:
        assert (await caller.answer("status", run=queue))["states"] == {"landed": 1, "returned": 1}
        repo = str(copied.queue_hub)
        explained = await caller.answer("explain", entry=EVIL_BRANCH, hub=repo, target="main")
        assert "check 'good'" in explained["explained"]
        why = await caller.answer("why", run=queue, task=EVIL_BRANCH)
        assert (why["phase"], why["why"]) == ("returned", explained["explained"])
        assert "there is nothing to cancel" in await caller.refusal("cancel", run=queue, task="good")
        retried = await caller.answer("retry", run=queue, task=EVIL_BRANCH)
        assert retried["resumed"] is False, "a queue is served by its own process"
        status = await caller.answer("status", run=queue)
        assert status["states"] == {"landed": 1, "waits": 1} and status["waiting"][0]["entry"] == EVIL_BRANCH

    talk(copied.machine, work)


def test_texts_are_cut_paged_and_clean() -> None:
    assert clean_value({"a": ["\x1b[31mred\x1b[0m\x07", 1]}) == {"a": ["red\\x07", 1]}
    assert clean_value("x" * 3000, 10) == f"{'x' * 9}…"
    text = "\n".join(f"line {number}" for number in range(3000))
    pages, at = "", 0
    while at is not None:
        page: dict[str, Any] = page_of(text, at)
        pages, at = pages + page["text"], page["next_offset"]
    assert pages == text
    answer: dict[str, object] = {}
    fill(answer, "rows", ({"n": number} for number in range(100)), most_bytes=100)
    assert len(json.dumps(answer)) < 130 and answer["rows_left_out"] == 100 - len(answer["rows"])  # type: ignore[arg-type]  # a list


def agree(content: dict[str, Any] | None) -> Callable[[ElicitRequestParams], ElicitResult]:
    def answer(params: ElicitRequestParams) -> ElicitResult:
        assert "How much may it cost?" in params.message
        return ElicitResult(action="decline") if content is None else ElicitResult(action="accept", content=content)

    return answer


@pytest.mark.parametrize("era", ERAS)
def test_a_run_that_may_cost_much_is_not_started_without_a_persons_word(
    machine: Machine, hub: Repository, era: Era
) -> None:
    """Scripted agents stand for models here; their candidates want a review, which would cost money."""
    arguments = {"plan": str(asking_plan(machine, review={})), "repo": str(hub.path)}
    dear = {**arguments, "plan": str(asking_plan(machine, name="dear", review={}, budget={"usd": 50}))}

    async def refused(caller: McpCaller) -> None:
        said = await caller.refusal("run_plan", **arguments)
        assert said.endswith("has no cap in US dollars; give a cap as `budget_usd`")
        assert "may cost 50 USD, more than the 5 of this server" in await caller.refusal("run_plan", **dear)

    async def declined(caller: McpCaller) -> None:
        assert "the cost was not agreed to" in await caller.refusal("run_plan", **arguments)

    async def accepted(caller: McpCaller) -> str:
        begun = await caller.answer("run_plan", **arguments)
        assert begun["budget_usd"] == 2.5
        await caller.answer("cancel", run=begun["run"])
        await caller.ended(str(begun["run"]))
        return str(begun["run"])

    talk(machine, refused, era=era)
    talk(machine, declined, era=era, elicitor=agree(None))
    assert machine.runs() == []
    run = talk(machine, accepted, era=era, elicitor=agree({"budget_usd": 2.5}))
    assert json.loads((machine.home / "runs" / run / "plan.json").read_text())["budget"]["usd"] == 2.5


_GREEN, _MODEL = {"t": "test -f README.md"}, {"scripted": "asks.yaml"}
LEAVE: list[tuple[str, dict[str, Any]]] = [
    ("task 'a' has 'grants', which only a person may give", {"defaults": {"grants": [".github/**"]}}),
    ("task 'a' has 'waive'", {"defaults": {"waive": ["placeholder"]}}),
    ("task 'a' has 'review: none'", {"defaults": {"agent": _MODEL, "review": "none"}}),
    ("plan p has 'review: none'", {"defaults": {"agent": _MODEL}, "review": "none"}),
    ("'review' of plan p has 'scripted'", {"review": {"scripted": "asks.yaml"}}),
    ("plan p has 'checks: none'", {"checks": "none"}),
    ("check 't' has 'waive'", {"checks": {"t": {"run": "true", "waive": ["cannot_fail"]}}}),
]


def test_a_plan_that_demands_less_is_started_by_a_person_alone(machine: Machine, hub: Repository) -> None:
    asking_plan(machine)

    async def work(caller: McpCaller) -> None:
        for number, (sentence, wrong) in enumerate(LEAVE):
            defaults = {"agent": command("true"), **wrong.get("defaults", {})}
            plan = {"name": "p", "checks": _GREEN, "tasks": [{"id": "a"}], **wrong, "defaults": defaults}
            path = machine.folder / f"{number}.json"
            path.write_text(json.dumps({"version": 1, **plan}))
            said = await caller.refusal("run_plan", plan=str(path), repo=str(hub.path))
            assert sentence in said and "`forgepool run PLAN`" in said, said

    talk(machine, work)
    assert machine.runs() == []


def test_a_run_that_is_refused_says_why_and_leaves_nothing(machine: Machine, hub: Repository) -> None:
    hub.git("checkout", "-q", "-b", "taken")

    async def work(caller: McpCaller) -> None:
        plan = asking_plan(machine, target="taken")
        said = await caller.refusal("run_plan", plan=str(plan), repo=str(hub.path))
        assert said.startswith("branch taken is checked out in ") and "\n" not in said

    talk(machine, work, "--may", "approve")
    assert machine.runs() == []


def test_a_branch_is_submitted_as_an_agents_work_and_checked(machine: Machine, tmp_path: Path) -> None:
    hub = make_repository(tmp_path / "hub", {"forgepool.yaml": "version: 1\nchecks:\n  good: test ! -e bad.txt\n"})
    for branch, file in (("good", "good.txt"), ("bad", "bad.txt")):
        hub.git("checkout", "-q", "-b", branch, "main")
        (hub.path / file).write_text("x\n")
        hub.git("add", "-A")
        hub.git("commit", "-q", "-m", f"Add {file}")
    repo = str(hub.path)

    async def work(caller: McpCaller) -> None:
        passes = await caller.answer("gate_check", base="main", head="good", repo=repo)
        refused = await caller.answer("gate_check", base="main", head="bad", repo=repo)
        assert (passes["verdict"], refused["verdict"]) == ("passes", "refused")
        given = await caller.answer("submit", branch="good", repo=repo, hub=repo, target="main")
        assert given["entry"] == "good"
        assert "no queue" in (await caller.answer("explain", entry="good", hub=repo, target="main"))["explained"]
        denied = await caller.answer("policy_explain", command="git push", repo=repo)
        assert denied["decision"] == "deny"

    talk(machine, work)
    (ref,) = hub.refs("refs/forgepool/for")
    assert "Agent: tests (MCP)" in hub.git("cat-file", "tag", ref)


@pytest.mark.parametrize("client", ["person", "  "])
def test_no_client_can_submit_as_a_person(machine: Machine, tmp_path: Path, client: str) -> None:
    hub = make_repository(tmp_path / "hub", {"README.md": "x\n"})
    repo, agents = str(hub.path), ["person", "  ", "command", "", "a\nAgent: person"]

    async def work(caller: McpCaller) -> None:
        for number, agent in enumerate(agents):
            told = {"name": f"e{number}", "repo": repo, "hub": repo, "target": "main"}
            await caller.answer("submit", branch="main", agent=agent, **told)

    talk(machine, work, info=Implementation(name=client, version="1"))
    refs = hub.refs("refs/forgepool/for")
    git = Git(git_dir=hub.path / ".git")
    read = [read_submission(git, "main", ref, CommitId(hub.git("rev-parse", ref).strip())) for ref in refs]
    authors = [_author(one) for one in read]
    assert len(authors) == len(agents)
    assert all(one.agent.endswith("(MCP)") and one.families == ("unknown",) for one in authors), authors
    assert all(one.agent.strip() != "(MCP)" for one in authors), "a client without a name is said to have none"


def test_over_http_every_request_shows_the_token_and_names_this_host(ended: tuple[Machine, str]) -> None:
    machine, run = ended
    token, file = "t" * 40, machine.folder / "token"
    file.write_text(token)
    started = machine.start("mcp", "--http", "127.0.0.1:0", "--token-file", file)
    said = wait_until(lambda: started.out.read_text() if started.running() else started.said(), "its address")
    port = int(said.partition("127.0.0.1:")[2].partition("/")[0])
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        for headers, status in (
            ({}, 401),
            ({"authorization": "Bearer wrong"}, 401),
            ({"authorization": f"Bearer {token}", "host": f"evil.example:{port}"}, 421),
            ({"authorization": f"Bearer {token}", "origin": "http://evil.example"}, 403),
        ):
            connection.request("POST", "/mcp", "{}", {"content-type": "application/json", **headers})
            reply = connection.getresponse()
            assert (reply.status, len(reply.read()) < 200) == (status, True), headers

    async def work(caller: McpCaller) -> None:
        assert (await caller.answer("status"))["run"] == run

    call_over_http(f"http://127.0.0.1:{port}/mcp", token, work)
    started.process.send_signal(signal.SIGTERM)
    started.ended(within_s=20)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--http", "0.0.0.0:0"), "can be reached by other hosts; use an address of this one"),
        (("--http", "127.0.0.1:0"), "--http needs a token; name the file that holds it with --token-file"),
        (("--http", "127.0.0.1:0", "--token-file", "weak"), "the token in weak is too weak"),
        (("--http", "8330", "--token-file", "weak"), "--http '8330' is not HOST:PORT"),
        (("--may", "grant"), "'grant'"),
    ],
)
def test_a_wrong_option_is_one_sentence(machine: Machine, options: tuple[str, ...], sentence: str) -> None:
    (machine.folder / "weak").write_text("secret")
    ran = machine.run("mcp", *options)
    assert (ran.status, ran.out, ran.err.count("\n")) == (2, "", 1) and sentence in ran.err, ran


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        *(
            ("--name", name, f"--name {name} is taken, or is no name")
            for name in ("../x", "a b", "x..y", "-x", "for", "x" * 101)
        ),
        *(("--name", name, f"--name {name} is taken, or is no name") for name in ("gates", "queues", "FOR")),
        ("--budget-usd", "0", "'--budget-usd'"),
    ],
)
def test_a_run_is_not_started_with_a_wrong_name_or_cap(
    machine: Machine, option: str, value: str, sentence: str
) -> None:
    ran = machine.run("run", "plan.yaml", option, value)
    assert (ran.status, ran.out, ran.err.count("\n")) == (2, "", 1) and sentence in ran.err, ran
