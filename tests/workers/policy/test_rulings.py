"""A model's calls under a policy: allowed ones are carried out, denied ones are answered, and all are recorded."""

from dataclasses import replace
from pathlib import Path

import pytest

from forgepool.workers.agents.builtin.permission import Rulings, _question
from forgepool.workers.context.transcript.entries import CallJudged, Transcript, conversation, read_transcript
from forgepool.workers.llm.messages import ToolCall
from forgepool.workers.policy.document import parse_policy
from forgepool.workers.policy.judgement import PolicyJudgement
from forgepool.workers.policy.layers import Policy, offerable
from forgepool.workers.policy.sources import policy_of
from forgepool.workers.sandbox.run.background import Background
from forgepool.workers.schema.orders import Reply
from forgepool.workers.schema.policy_rules import Unattended
from forgepool.workers.tools.commands.run import BASH
from forgepool.workers.tools.endings import ASK, finish_tool
from forgepool.workers.tools.files.apply_patch import APPLY_PATCH
from forgepool.workers.tools.files.text_file import READ_FILE, WRITE_FILE
from forgepool.workers.tools.tool import PersonAsked, Tool
from forgepool.workers.tools.toolset import reading, working


class Desk:
    """A worktree and a transcript, with a policy over them."""

    def __init__(self, folder: Path, policy: Policy, unattended: Unattended, replies: tuple[Reply, ...]) -> None:
        self.path = folder / "t.jsonl"
        (folder / "worktree").mkdir(exist_ok=True)
        self.transcript = Transcript(self.path)
        self.rulings = Rulings(
            policy=policy,
            root=(folder / "worktree").resolve(),
            unattended=unattended,
            replies=replies,
            transcript=self.transcript,
        )

    def ask(self, tool: Tool, **arguments: str) -> tuple[str, CallJudged | None]:
        """Return the answer to the model ("" if the call is allowed), and the record."""
        answer = self.rulings(ToolCall(id="c1", name=tool.name, arguments=dict(arguments)), tool)
        written = [entry for entry in read_transcript(self.path) if isinstance(entry, CallJudged)]
        self.last = answer
        return ("" if answer is None else answer.text), (written[-1] if written else None)


@pytest.fixture
def shipped() -> Policy:
    return policy_of(person=None).during("execute")


def own(*rules: str) -> Policy:
    text = "version: 1\nrules:\n" + "".join(f"  - {rule}\n" for rule in rules)
    return Policy(person=parse_policy(text, "p.yaml", "person"))


def test_an_allowed_call_goes_through_and_is_written_down(tmp_path: Path, shipped: Policy) -> None:
    """Every decision is in the transcript, but the model is not told of an allowed call."""
    desk = Desk(tmp_path, shipped, "deny", ())
    told, written = desk.ask(BASH, command="git status | cat")
    assert told == "" and written is not None
    assert (written.decision, written.tool, written.call_id) == ("allow", "bash", "c1")
    assert written.commands == (("git", "status"), ("cat",))
    assert conversation(read_transcript(desk.path)) == ()


def test_a_denied_call_is_answered_with_the_reason_and_what_to_do_instead(tmp_path: Path, shipped: Policy) -> None:
    desk = Desk(tmp_path, shipped, "deny", ())
    told, written = desk.ask(BASH, command="git status && git push")
    assert "not run, the policy denies it" in told and "the harness pushes; leave the work in the files" in told
    assert written is not None and (written.decision, written.rule) == ("deny", "built-in: git-push")
    assert desk.last is not None and desk.last.is_error and desk.last.ends is None


def test_what_cannot_be_known_is_answered_with_how_to_write_it(tmp_path: Path, shipped: Policy) -> None:
    told, written = Desk(tmp_path, shipped, "deny", ()).ask(BASH, command='eval "$X"')
    assert "run the command itself" in told
    assert written is not None and written.commands is None


@pytest.mark.parametrize("tool", ["bash", "bash_background", "confirm_red_phase"])
def test_all_that_run_a_shell_are_bash(tool: str, tmp_path: Path, shipped: Policy) -> None:
    """A rule for bash holds for each of them."""
    made = Tool(offer=replace(BASH.offer, name=tool), kind="run", call=BASH.call)
    _, written = Desk(tmp_path, shipped, "deny", ()).ask(made, command="git push")
    assert written is not None and written.decision == "deny"


def test_every_path_of_a_patch_is_judged(tmp_path: Path, shipped: Policy) -> None:
    """One denied file denies the patch. The new name of a moved file counts as well."""
    desk = Desk(tmp_path, shipped, "deny", ())
    fine = "*** Begin Patch\n*** Add File: src/a\n+x\n*** End Patch"
    assert desk.ask(APPLY_PATCH, input=fine)[0] == ""
    for bad in (
        "*** Begin Patch\n*** Add File: src/a\n+x\n*** Add File: .git/config\n+x\n*** End Patch",
        "*** Begin Patch\n*** Update File: src/a\n*** Move to: .claude/a\n@@\n-x\n+y\n*** End Patch",
        "*** Begin Patch\n*** Delete File: ../a\n*** End Patch",
    ):
        assert "the policy denies it" in desk.ask(APPLY_PATCH, input=bad)[0], bad


def test_tools_of_other_programs_are_judged_by_name(tmp_path: Path) -> None:
    """The names are `mcp__server__tool`, matched by a glob."""
    tool = Tool(offer=replace(BASH.offer, name="mcp__db__drop"), kind="run", call=BASH.call)
    denying = own("{match: {tool: mcp__db__*}, decision: deny, reason: no databases}")
    assert "no databases" in Desk(tmp_path, denying, "deny", ()).ask(tool, command="x")[0]


def test_what_ends_a_conversation_is_never_judged(tmp_path: Path) -> None:
    """A conversation must be able to end."""
    told, written = Desk(tmp_path, own("{match: {tool: '*'}, decision: deny}"), "deny", ()).ask(ASK, question="why?")
    assert (told, written) == ("", None)


def test_nobody_there_is_a_no(tmp_path: Path, shipped: Policy) -> None:
    """Unattended, a prompt is denied, and the answer says what it would have needed."""
    desk = Desk(tmp_path, shipped, "deny", ())
    told, written = desk.ask(WRITE_FILE, path=".github/workflows/ci.yml", content="x")
    assert "needs a person's yes and no person is there" in told
    assert written is not None and written.decision == "prompt"
    assert desk.last is not None and desk.last.ends is None


def test_a_parked_call_asks_and_a_yes_lets_that_very_call_through(tmp_path: Path, shipped: Policy) -> None:
    """The question names the call. A yes holds for no other call, and a no denies it."""
    call = {"path": ".github/workflows/ci.yml", "content": "x"}
    parked = Desk(tmp_path, shipped, "park", ())
    parked.ask(WRITE_FILE, **call)
    assert parked.last is not None and isinstance(parked.last.ends, PersonAsked)
    question = parked.last.ends.question
    assert ".github/workflows/ci.yml" in question
    yes = Desk(tmp_path, shipped, "park", (Reply(question=question, answer="Yes, go on", by="ann"),))
    told, written = yes.ask(WRITE_FILE, **call)
    assert told == "" and written is not None and written.decision == "allow" and "ann" in written.reason
    yes.ask(WRITE_FILE, path=".github/workflows/other.yml", content="x")
    assert yes.last is not None and isinstance(yes.last.ends, PersonAsked)
    no = Desk(tmp_path, shipped, "park", (Reply(question=question, answer="no"),))
    assert "said 'no'" in no.ask(WRITE_FILE, **call)[0]


def test_long_commands_that_differ_at_their_end_are_different_questions(tmp_path: Path) -> None:
    """A yes to one is no yes to the other."""
    questions = set()
    for end in ("a", "b"):
        desk = Desk(tmp_path, Policy(), "park", ())
        desk.ask(BASH, command="echo " + "x" * 2000 + end)
        assert desk.last is not None and isinstance(desk.last.ends, PersonAsked)
        questions.add(desk.last.ends.question)
    assert len(questions) == 2


def test_a_tool_denied_outright_is_not_offered() -> None:
    """Tools that end a conversation, and tools with some permitted calls, are still offered."""
    with Background() as background:
        tools = working("claude", background, (), (finish_tool(lambda: None), ASK))
    names = [tool.name for tool in tools]
    phased = own("{match: {phase: plan, tool: bash}, decision: deny}")
    partly = own("{match: {tool: bash}, decision: deny}", "{match: {tool: bash, command: ls}, decision: allow}")
    everything = own("{match: {tool: '*'}, decision: deny}")
    assert [tool.name for tool in offerable(tools, phased.during("execute"))] == names
    assert "bash" not in [tool.name for tool in offerable(tools, phased.during("plan"))]
    assert [tool.name for tool in offerable(tools, partly)] == names
    assert [tool.name for tool in offerable(tools, everything)] == ["finish", "ask"]
    assert [tool.name for tool in offerable(tools, own("{match: {tool: []}, decision: deny}"))] == names


def test_what_is_shipped_takes_no_tool_away_and_plan_only_looks() -> None:
    """All tools are offered in EXECUTE. In PLAN the ones that change something are denied even if they are offered."""
    shipped = policy_of(person=None)
    with Background() as background:
        tools = working("claude", background)
    assert offerable(tools, shipped.during("execute")) == tools
    assert offerable(reading(), shipped.during("plan")) == reading()
    assert {tool.name for tool in offerable(tools, shipped.during("plan"))} == {
        "read_file",
        "glob",
        "grep",
        "check_background",
        "stop_background",
    }


def test_a_person_may_deny_a_tool_whatever_is_shipped_of_it(tmp_path: Path) -> None:
    """`bash` denied in the person's file is not offered, although shipped rules allow `git status`."""
    path = tmp_path / "policy.yaml"
    path.write_text("version: 1\nrules: [{match: {tool: bash}, decision: deny}]")
    policy = policy_of(person=path).during("execute")
    assert offerable((BASH, READ_FILE), policy) == (READ_FILE,)
    assert "denies" in Desk(tmp_path, policy, "deny", ()).ask(BASH, command="git status")[0]


def test_a_yes_to_one_text_of_a_file_is_none_to_another() -> None:
    """The question identifies the whole call, shown or not."""
    asked = PolicyJudgement(decision="prompt", rule="r", reason="it decides what is green", commands=None)
    one, again, other = (
        ToolCall(id=number, name="write_file", arguments={"path": "forgepool.yaml", "content": text})
        for number, text in (("1", "a"), ("2", "a"), ("3", "b"))
    )
    assert _question(one, asked) == _question(again, asked) != _question(other, asked)
