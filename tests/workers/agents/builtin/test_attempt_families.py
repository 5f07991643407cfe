"""A result names the families that wrote the work and their plan: over real HTTP, by script and by program."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from cli_kit import Place
from host_kit import Host
from vendors.answers import Brain, Fault, Say, Seen
from vendors.server import VendorServer

from forgepool.workers.context.transcript.entries import TurnSaid
from forgepool.workers.schema.orders import BuiltinAgent, CommandAgent, ScriptedAgent

KEY = "FAMILIES_TEST_KEY"
FILES = {"a.py": "def old():\n    return 1\n"}
PLAN = ("commit_plan", {"plan": "Rename it.", "files_to_modify": ["a.py"]})
RENAME = ("bash", {"command": "sed -i s/old/new/ a.py"})
FINISH = ("finish", {"summary": "renamed"})


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setenv(KEY, "k-1")
    return Host(tmp_path, FILES)


@pytest.fixture
def until_the_end() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def serve(host: Host, stack: ExitStack, brain: Brain) -> None:
    server = stack.enter_context(VendorServer(brain))
    path = host.folder / "models.yaml"
    usual = "account: local, window_tokens: 100000, max_output_tokens: 4000, also: []"
    route = "{primary: first, then: [second], phases: {}, reason: r, source: s, date: '2026-11-01'}"
    path.write_text(
        f"accounts: {{local: {{wire: anthropic, key: {KEY}, base_url: '{server.url}'}}}}\n"
        f"models:\n  first: {{family: left, {usual}}}\n  second: {{family: right, {usual}}}\n"
        f"routes: {{code: {route}}}\nbudget: second\n"
    )
    host.settings = host.settings.model_copy(update={"models": path})


def works(seen: Seen) -> Say:
    if "commit_plan" in seen.tools:
        return Say(calls=[PLAN])
    return Say(calls=[FINISH if seen.answered else RENAME])


def test_a_result_has_the_family_and_the_plan_of_its_model(host: Host, until_the_end: ExitStack) -> None:
    serve(host, until_the_end, works)
    done = host.carry_out(agent=BuiltinAgent())
    assert (done.outcome, done.models, done.families, done.planned) == ("candidate", ("first",), ("left",), ("a.py",))


def test_who_was_fallen_back_to_had_a_hand_in_it_as_well(host: Host, until_the_end: ExitStack) -> None:
    """The first model made the plan. Then its key is refused, and another family writes the code."""

    def brain(seen: Seen) -> Say | Fault:
        planning = "commit_plan" in seen.tools
        return works(seen) if planning or seen.model == "second" else Fault(kind="authentication")

    serve(host, until_the_end, brain)
    done = host.carry_out(agent=BuiltinAgent())
    assert (done.outcome, done.models, done.families) == ("candidate", ("first", "second"), ("left", "right"))


def test_who_began_an_attempt_that_is_gone_on_with_had_a_hand_in_it(host: Host, until_the_end: ExitStack) -> None:
    """The first model reads until its server fails. The next attempt is of another family, in the same files."""

    def first(seen: Seen) -> Say | Fault:
        if "commit_plan" in seen.tools:
            return Say(calls=[PLAN])
        return Fault(kind="usage_limit") if seen.answered else Say(calls=[RENAME])

    serve(host, until_the_end, first)
    begun = host.carry_out(agent=BuiltinAgent(model="first"))
    assert (begun.outcome, begun.resumable, begun.families) == ("infrastructure", True, ("left",))
    serve(host, until_the_end, works)
    done = host.carry_out(agent=BuiltinAgent(model="second"), attempt=2, resumes=1)
    said = [entry.turn.model for entry in host.transcript(2) if isinstance(entry, TurnSaid) and entry.turn.model]
    assert list(dict.fromkeys(said)) == ["first", "second"]
    assert (done.outcome, done.families, done.planned) == ("candidate", ("left", "right"), ("a.py",))


@pytest.mark.parametrize(("named", "family"), [("family: author\n", "author"), ("", "scripted")])
def test_a_script_is_of_the_family_it_says_and_its_model_is_scripted(host: Host, named: str, family: str) -> None:
    script = named + (
        "turns:\n"
        "  - calls: [{tool: write_file, path: b.py, content: 'x = 1'}]\n"
        "  - calls: [{tool: finish, summary: done}]\n"
    )
    done = host.carry_out(agent=ScriptedAgent(script=script))
    assert (done.outcome, done.models, done.families, done.planned) == ("candidate", ("scripted",), (family,), ())


def test_a_command_is_of_no_family(host: Host) -> None:
    done = host.carry_out(agent=CommandAgent(run="echo x > b.py"))
    assert (done.outcome, done.models, done.families) == ("candidate", (), ())


def test_a_program_is_of_its_vendors_family(tmp_path: Path) -> None:
    place = Place(tmp_path, "claude")
    place.replay("claude-success.jsonl", before="echo new > b.txt")
    assert place.perform().families == ("claude",)
