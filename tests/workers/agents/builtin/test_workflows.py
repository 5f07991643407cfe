"""Workflows: the built-in ones, mistakes in files, and a machine that no order of events leads past an artifact."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from premade import repository

from forgepool.workers.agents.builtin.phases import (
    Begin,
    End,
    ForcePlan,
    GoOn,
    PhaseCourse,
    Step,
    Undo,
    Verify,
    facts,
    next_step,
)
from forgepool.workers.agents.builtin.workflow import (
    Workflow,
    WorkflowPhase,
    builtin_workflow,
    builtin_workflows,
    find_workflow,
    parse_workflow,
    why_unfit,
)
from forgepool.workers.context.transcript.entries import (
    Answered,
    ConversationStarted,
    Entry,
    Finished,
    PlanCommitted,
    ReportGiven,
    Resumed,
    TurnSaid,
    Undone,
    Verified,
)
from forgepool.workers.llm.messages import Text, ToolCall, ToolResult, Turn
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.orders import Spent
from forgepool.workers.schema.reports import Report

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "workflows.md"
GREEN = Verified(at=0.0, ok=True, detail="")
RED = Verified(at=0.0, ok=False, detail="'make test' exited with 1", output="boom", fingerprint="f")


def course(*phases: WorkflowPhase) -> PhaseCourse:
    return PhaseCourse(workflow=phases)


def phase(name: str, artifact: str, **more: object) -> WorkflowPhase:
    return WorkflowPhase.model_validate({"name": name, "artifact": artifact, **more})


def said(*calls: ToolCall) -> Entry:
    return TurnSaid(at=0.0, turn=Turn(role="assistant", parts=(Text(text="hm"), *calls)))


def ended(how: str) -> Entry:
    return Finished(at=0.0, ended=how, detail="so", summary="done" if how == "finished" else "", spent=Spent())


def started(which: WorkflowPhase) -> Entry:
    name = which.name if which.name != which.kind else ""
    return ConversationStarted(at=0.0, order_id="r.t.1", model="m", system=(), tools=(), phase=which.kind, name=name)


def confirmed() -> list[Entry]:
    call = ToolCall(id="c", name="confirm_red_phase", arguments={"command": "make red"})
    return [said(call), Answered(at=0.0, iteration=1, seconds=0, result=ToolResult(call_id="c", text="OK: it fails"))]


def made(which: WorkflowPhase) -> list[Entry]:
    """Return the rest of a conversation that produces its phase's artifact."""
    match which.artifact:
        case "plan":
            return [said(), PlanCommitted(at=0.0, plan="do it", files=("a.py",)), ended("planned")]
        case "report":
            return [said(), ReportGiven(at=0.0, report=Report(summary="s")), ended("reported")]
        case "failing-test":
            return [*confirmed(), said(), ended("finished")]
        case "change":
            return [said(), ended("finished")]


def step(flow: PhaseCourse, *entries: Entry) -> Step:
    return next_step(facts(entries), flow, ())


def test_the_usual_phases_are_the_built_in_build() -> None:
    assert builtin_workflow("build").phases == PhaseCourse().phases


@pytest.mark.parametrize("name", builtin_workflows())
def test_a_built_in_workflow_is_gone_through_in_order(name: str) -> None:
    """Each phase begins once, after the artifact of the one before it."""
    flow, entries = course(*builtin_workflow(name).phases), list[Entry]()
    for each in flow.phases:
        assert step(flow, *entries) == Begin(each.name)
        entries += [started(each), *made(each)]
        if each.artifact == "change":
            assert step(flow, *entries) == Verify()
            entries += [GREEN]
    last = step(flow, *entries)
    assert last == End("reported" if builtin_workflow(name).answers else "finished", "so")


def test_a_phase_without_its_artifact_ends_the_attempt_with_a_sentence_that_names_both() -> None:
    scan, fix = phase("scan", "report", turns=3), phase("fix", "change")
    red = phase("red", "failing-test")
    spent = step(course(scan, fix), started(scan), said(), ended("turns"))
    assert spent == End("limits", "phase 'scan' ended without its artifact, a report: so")
    unseen = step(course(red, fix), started(red), said(), ended("finished"))
    assert unseen == End(
        "failed", "phase 'red' ended without its artifact, a failing-test: the harness saw no test fail"
    )
    stopped = phase("think", "plan", on_failure="stop")
    explored = step(course(stopped, fix), started(stopped), said(), ended("explored"))
    assert explored == End("failed", "phase 'think' ended without its artifact, a plan: so")


def test_a_plan_that_changes_nothing_ends_only_a_workflow_that_has_changed_nothing() -> None:
    fix, think, more = phase("fix", "change"), phase("think", "plan"), phase("more", "change")
    nothing: list[Entry] = [said(), PlanCommitted(at=0.0, plan="none", files=()), ended("planned")]
    first = step(course(think, fix), started(think), *nothing)
    assert isinstance(first, End) and first.ended == "no_change"
    later = (started(fix), *made(fix), GREEN, started(think), *nothing)
    assert step(course(fix, think, more), *later) == Begin("more")


def test_reds_are_counted_for_each_phase_and_a_red_leads_where_the_phase_says() -> None:
    one, two = phase("one", "change"), phase("two", "change")
    again: list[Entry] = [RED, *made(one)]
    begun = (started(one), *made(one), *again, *again, GREEN, started(two), *made(two), RED)
    first = step(course(one, two), *begun)
    assert isinstance(first, GoOn) and first.phase == "two" and not first.stronger
    stops = phase("two", "change", on_failure="stop")
    assert step(course(one, stops), *begun) == End(
        "verify_failed", "'make test' exited with 1; phase 'two' stops at that"
    )
    undoes = phase("two", "change", on_failure="undo")
    assert step(course(one, undoes), *begun) == Undo("'make test' exited with 1")
    undone = (*begun, Undone(at=0.0, why="red"))
    assert step(course(one, undoes), *undone) == End("finished", "phase 'two' was undone: red")
    assert step(course(one, undoes), *undone, Resumed(at=0.0, order_id="r.t.2")) == End(
        "finished", "phase 'two' was undone: red"
    )


def test_what_an_undone_phase_claimed_is_claimed_no_more() -> None:
    one, two = phase("one", "change"), phase("two", "change", on_failure="undo")
    claims = Finished(at=0.0, ended="finished", detail="so", summary="tidied", spent=Spent())
    entries = [started(one), *made(one), GREEN, started(two), said(), claims, RED, Undone(at=0.0, why="red")]
    assert facts(entries[:-1]).summary == "tidied" and facts(entries).summary == "done"


def test_an_attempt_in_a_phase_that_its_workflow_lacks_ends() -> None:
    answer = step(course(phase("fix", "change")), started(phase("gone", "change")), said())
    assert answer == End("failed", "its workflow lacks the interrupted phase 'gone'; `forgepool retry` starts it again")


FLOWS = [
    *(course(*builtin_workflow(name).phases) for name in builtin_workflows()),
    course(phase("only", "change", on_failure="stop")),
    course(phase("a", "plan"), phase("b", "plan", on_failure="stop"), phase("execute", "change")),
    course(phase("a", "change"), phase("plan", "plan"), phase("b", "change", on_failure="undo"), phase("c", "change")),
    course(phase("a", "failing-test"), phase("b", "failing-test"), phase("c", "change")),
    course(phase("a", "report"), phase("b", "failing-test"), phase("c", "change"), phase("d", "change")),
]
HOWS = ("asked", "explored", "failed", "refused", "overflow", "limits", "turns", "finished", "planned", "reported")


class Play:
    """An attempt whose conversations and verifications end as they like, and its phases that have their artifact."""

    def __init__(self, flow: PhaseCourse, data: st.DataObject) -> None:
        self.flow, self.data = flow, data
        self.order = [each.name for each in flow.phases]
        self.entries: list[Entry] = []
        self.produced: list[str] = []

    def act(self, now: Step) -> None:
        """Add the entries of a step, after a look at what it rests on."""
        match now:
            case Begin(phase=name) | GoOn(phase=name):
                at = self.order.index(name)
                assert self.produced == self.order[:at], "no phase is skipped, and none lacks what it needs"
                self.entries += [started(self.flow.phases[at])] if isinstance(now, Begin) else []
                self.converse(self.flow.phases[at])
            case ForcePlan():
                self.entries.append(PlanCommitted(at=0.0, plan="p", files=(), synthetic=True))
                self.produced.append(facts(self.entries).own.name)
            case Verify():
                self.entries.append(self.data.draw(st.sampled_from([GREEN, RED])))
                self.produced += [facts(self.entries).own.name] if self.entries[-1] == GREEN else []
            case Undo(why=why):
                self.entries.append(Undone(at=0.0, why=why))
                self.produced.append(facts(self.entries).own.name)

    def converse(self, which: WorkflowPhase) -> None:
        good = self.data.draw(st.booleans())
        how = "finished" if good else self.data.draw(st.sampled_from(HOWS))
        self.entries += made(which) if good else [said(), ended(how)]
        # A test confirmed in an earlier conversation of the phase stays confirmed.
        seen = any(isinstance(entry, Answered) for entry in self.entries[self.began(which) :])
        if (good and which.kind == "plan") or (which.artifact == "failing-test" and how == "finished" and seen):
            self.produced.append(which.name)

    def began(self, which: WorkflowPhase) -> int:
        starts = [at for at, one in enumerate(self.entries) if isinstance(one, ConversationStarted)]
        return min(at for at in starts if self.entries[at] == started(which))


@given(st.sampled_from(FLOWS), st.data())
def test_from_any_beginning_the_machine_ends_and_enters_no_phase_without_the_artifact_before_it(
    flow: PhaseCourse, data: st.DataObject
) -> None:
    """Interruptions come anywhere."""
    play, interruptions = Play(flow, data), 3
    for _ in range(60):
        if interruptions and data.draw(st.integers(0, 5)) == 0:
            interruptions -= 1
            play.entries.append(Resumed(at=0.0, order_id="r.t.2"))
        now = step(flow, *play.entries)
        if isinstance(now, End):
            break
        play.act(now)
    assert isinstance(now, End), "it ends"
    if now.ended in ("finished", "reported"):
        assert play.produced == play.order


HEAD = "name: f\ndescription: d\nphases:\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "f.yaml:1: is empty; write its keys, or remove it"),
        ("name: f\nphases:\n- {name: a, artifact: change}\n", "f.yaml:1: the file lacks the key 'description'"),
        ("name: f\ndescription: d\nphases: []\n", "f.yaml:3: 'phases' must not be empty"),
        (
            HEAD + "- {name: a, artifact: diff}\n",
            "f.yaml:4: 'artifact' of phase 'a' must be 'plan', 'report', 'failing-test' or 'change', is 'diff'",
        ),
        (
            HEAD + "- name: a\n  artifact: change\n  tool: [bash]\n",
            "f.yaml:6: phase 'a' has an unknown key 'tool'; did you mean 'tools'?",
        ),
        (
            HEAD + "- name: a\n  artifact: change\n  tools: [bsh]\n",
            "f.yaml:6: 'tools' of phase 'a' names the tool 'bsh', which there is not; did you mean bash?",
        ),
        (HEAD + "- {name: a, artifact: change, turns: 0}\n", "f.yaml:4: 'turns' of phase 'a' must be at least 1, is 0"),
        (
            (HEAD + "- {name: a, artifact: change}\n").replace("f", "g", 1),
            "f.yaml:1: 'name' must be 'f', as the file is called, is 'g'",
        ),
        (HEAD + "- {name: a, artifact: change}\n" * 2, "f.yaml:5: a second phase is called 'a'; give it another name"),
        (
            HEAD + "".join(f"- {{name: a{n}, artifact: change}}\n" for n in range(9)),
            "f.yaml:3: has 9 phases; 8 are allowed",
        ),
        (
            HEAD + "- {name: a, artifact: plan}\n",
            "f.yaml:4: the last phase must end with a change or a report, and 'a' ends with a plan; "
            "add a phase after it",
        ),
        (
            HEAD + "- {name: a, artifact: report}\n- {name: b, artifact: change}\n- {name: c, artifact: report}\n",
            "f.yaml:5: phase 'b' writes files, and a workflow that ends with a report changes nothing; "
            "end it with a change, or remove the phase",
        ),
        (
            HEAD + "- {name: a, artifact: report, on_failure: mend}\n",
            "f.yaml:4: phase 'a' has an 'on_failure', which only plans and changes have; "
            "without its report the attempt ends: remove it",
        ),
        (
            HEAD + "- {name: a, artifact: change, on_failure: undo}\n",
            "f.yaml:4: phase 'a' would be undone, with no verified change before it to return to; write mend or stop",
        ),
        (
            HEAD + "- {name: a, artifact: change}\n- {name: b, artifact: failing-test}\n"
            "- {name: c, artifact: change, on_failure: undo}\n",
            "f.yaml:6: phase 'c' would be undone to a failing test, which no change makes pass; write mend or stop",
        ),
        (
            HEAD + "- {name: a, artifact: change}\n- {name: b, artifact: plan, on_failure: undo}\n"
            "- {name: c, artifact: change}\n",
            "f.yaml:5: phase 'b' is a plan, which changes no file that could be undone; write mend or stop",
        ),
        (
            HEAD + "- {name: a b, artifact: change}\n",
            "f.yaml:4: 'name' of phase 'a b' must be letters, digits, '_', '-' or single '.' within, at most 100, "
            "and not end in '.lock', is 'a b'",
        ),
    ],
)
def test_a_mistake_in_a_file_is_told_with_its_line(text: str, sentence: str) -> None:
    with pytest.raises(DocumentWrong) as wrong:
        parse_workflow(text, "f.yaml", "f")
    assert str(wrong.value) == sentence


OWN = HEAD + "- {name: only, artifact: change}\n"


def test_a_repository_has_workflows_of_its_own_read_at_the_base(tmp_path: Path) -> None:
    files = {
        ".forgepool/workflows/odd.yml": OWN,
        ".forgepool/workflows/f.yaml": OWN,
        ".forgepool/workflows/build.yaml": OWN.replace("f", "build", 1),
    }
    git, base = repository(tmp_path / "r", files, {".forgepool/workflows/f.yaml": OWN.replace("only", "late")})
    first = type(base)(git.text("rev-parse", f"{base}^"))
    assert [find_workflow("f", git, at).phases[0].name for at in (first, base)] == ["only", "late"]
    assert len(find_workflow("build", git, base).phases) == 1, "it replaces the built-in one"
    assert find_workflow("scope", git, base) == builtin_workflow("scope")
    with pytest.raises(DocumentWrong, match=r"workflows/odd\.yml: it must be called odd\.yaml; rename it"):
        find_workflow("odd", git, base)
    with pytest.raises(DocumentWrong) as wrong:
        find_workflow("scop", git, base)
    assert str(wrong.value) == (
        "workflow 'scop': it is neither built in nor in .forgepool/workflows/ at the base; did you mean scope?"
    )


def test_a_workflow_fits_a_task_that_ends_as_it_does() -> None:
    scope, build = builtin_workflow("scope"), builtin_workflow("build")
    assert why_unfit(scope, answers=True, leads=False) is why_unfit(build, answers=False, leads=False) is None
    assert why_unfit(scope, answers=False, leads=False) == (
        "the workflow 'scope' ends with a report; write 'answers: true', or choose another workflow"
    )
    assert why_unfit(build, answers=True, leads=False) == (
        "it answers, and the workflow 'build' ends with a change; choose one that ends with a report"
    )
    assert "remove 'workflow', or 'leads'" in str(why_unfit(scope, answers=True, leads=True))


def test_the_workflow_on_the_page_about_them_can_be_used() -> None:
    (text,) = [block for block in PAGE.read_text().split("```yaml\n") if block.startswith("# .forgepool/workflows/")]
    flow: Workflow = parse_workflow(text.partition("```")[0], "docstrings.yaml", "docstrings")
    assert [each.artifact for each in flow.phases] == ["report", "change", "change"]
