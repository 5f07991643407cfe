"""Stand-ins that print what the real programs printed (see docs/how-to/agents.md), and other behaviour."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from cli_kit import KEY, KEYS, RECORDINGS, Place

from forgepool.workers.agents.briefing.card_sections import CardSection
from forgepool.workers.agents.cli import find_installed
from forgepool.workers.agents.cli.performing import perform_cli
from forgepool.workers.context.transcript.entries import Answered, Noted, TurnSaid, read_transcript
from forgepool.workers.sandbox import tree
from forgepool.workers.schema.confinement import Confinement
from forgepool.workers.schema.orders import CliProgram, Limits

_SUCCESS: dict[CliProgram, str] = {
    "claude": "claude-success.jsonl",
    "codex": "codex-success.jsonl",
    "opencode": "opencode-success.jsonl",
    "aider": "aider-success.txt",
}


def _of(recording: str) -> CliProgram:
    return next(program for program in _SUCCESS if recording.startswith(program))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "p", "codex", limits=Limits(wall_s=20, idle_s=15))


def _transcript(place: Place) -> Path:
    return place.folder / "logs" / "transcript.jsonl"


@pytest.mark.parametrize(
    ("recording", "turns", "tokens", "cached", "cost"),
    [
        ("claude-success.jsonl", 2, 12_253, 6_057, 0.0326264),
        ("codex-success.jsonl", 2, 20_154, 9_984, None),
        ("opencode-success.jsonl", 2, 13_714, 6_801, None),
        ("aider-success.txt", 1, 1_009, 0, None),
    ],
)
def test_a_program_that_says_it_is_done_has_finished(
    tmp_path: Path, recording: str, turns: int, tokens: int, cached: int, cost: float | None
) -> None:
    """Its claim, models and use are from its own output. A cost that it does not report is unknown."""
    place = Place(tmp_path / "p", _of(recording))
    place.replay(recording)
    answer = place.perform()
    assert (answer.ended, answer.trouble) == ("finished", None)
    assert "b.txt has the new word." in answer.claimed_summary
    spent = answer.spent
    assert (spent.turns, spent.tokens, spent.cached_tokens, spent.cost_usd) == (turns, tokens, cached, cost)
    assert len(answer.models) == 1
    assert "b.txt has the new word." in answer.log_tail
    assert (place.folder / "logs" / "agent.log").read_text().endswith(answer.log_tail)


@pytest.mark.parametrize(
    ("recording", "status", "ended", "trouble", "detail"),
    [
        # Exit status 0 and an event called success are not enough.
        ("claude-api-error.jsonl", 0, "failed", "overloaded", "529 Overloaded"),
        ("claude-authentication.jsonl", 1, "failed", "authentication", "; set ANTHROPIC_API_KEY or "),
        ("claude-usage-limit.jsonl", 1, "failed", "usage_limit", "5-hour limit"),
        ("claude-refusal.jsonl", 1, "refused", None, "safeguards flagged"),
        ("claude-empty.jsonl", 0, "failed", None, "without a last word"),
        ("claude-cut.jsonl", 1, "failed", "truncated", "Connection lost"),
        ("codex-api-error.jsonl", 1, "failed", "overloaded", "503 Service Unavailable"),
        ("codex-authentication.jsonl", 1, "failed", "authentication", "set OPENAI_API_KEY to a key"),
        ("codex-usage-limit.jsonl", 1, "failed", "usage_limit", "hit your usage limit"),
        ("codex-quota.jsonl", 1, "failed", "usage_limit", "Quota exceeded"),
        ("codex-refusal.jsonl", 0, "failed", None, "without a last word"),
        ("codex-overflow.jsonl", 1, "failed", "overflow", "ran out of room"),
        ("opencode-rate-limit.jsonl", 1, "failed", "rate_limit", "rate limit of 50,000"),
        ("opencode-authentication.jsonl", 1, "failed", "authentication", "set ANTHROPIC_API_KEY to a key"),
        ("opencode-refusal.jsonl", 1, "refused", None, "content filter"),
        ("opencode-length.jsonl", 0, "failed", None, "cut off at its length limit"),
        ("opencode-empty.jsonl", 0, "failed", None, "without a last word"),
        ("aider-authentication.txt", 0, "failed", "authentication", "set OPENAI_API_KEY to a key"),
        ("aider-overflow.txt", 0, "failed", "overflow", "exceeds the context window"),
        ("aider-empty.txt", 0, "failed", None, "Empty response"),
    ],
)
def test_a_program_that_failed_is_not_believed(
    tmp_path: Path, recording: str, status: int, ended: str, trouble: str | None, detail: str
) -> None:
    """Each failure is reported by kind, in one sentence, without any part of the key."""
    place = Place(tmp_path / "p", _of(recording))
    place.replay(recording, status=status, before="echo new > b.txt")
    answer = place.perform()
    assert (answer.ended, answer.trouble) == (ended, trouble)
    assert detail in answer.detail
    assert "\n" not in answer.detail
    assert "sk-" not in answer.detail
    assert answer.claimed_summary == ""


@pytest.mark.parametrize("program", _SUCCESS)
def test_done_with_a_bad_status_is_not_finished(tmp_path: Path, program: CliProgram) -> None:
    """The last event and the exit status have to agree."""
    place = Place(tmp_path / "p", program)
    place.replay(_SUCCESS[program], status=3)
    answer = place.perform()
    assert (answer.ended, answer.detail) == ("failed", f"{program} said that it was done, and then ended with status 3")


@pytest.mark.parametrize("program", _SUCCESS)
def test_a_stream_without_its_end_is_not_finished(tmp_path: Path, program: CliProgram) -> None:
    """Exit status 0 after events that break off, even within the last one, is no success."""
    recording = (RECORDINGS / program / _SUCCESS[program]).read_bytes().rstrip(b"\n")
    lines = recording.split(b"\n")
    end = next(number for number, line in enumerate(lines) if line.startswith(b"Tokens:")) if program == "aider" else -1
    cut = lines[:end] if program == "aider" else [*lines[:end], lines[end][: len(lines[end]) // 2]]
    (tmp_path / "cut").write_bytes(b"\n".join(cut))
    place = Place(tmp_path / "p", program)
    place.stand_in(f"cat {tmp_path}/cut")
    answer = place.perform()
    assert answer.ended == "failed"
    assert f"{program} ended with status 0 and did not say how its work ended" in answer.detail


def test_a_usage_limit_comes_with_its_reset(tmp_path: Path) -> None:
    """The time comes exactly from an event, or from a text by this host's clock."""
    claude, codex = Place(tmp_path / "a", "claude"), Place(tmp_path / "b", "codex")
    claude.replay("claude-usage-limit.jsonl", status=1)
    events = [json.loads(line) for line in (tmp_path / "a/bin/claude-usage-limit.jsonl").read_text().splitlines()]
    told = next(event["rate_limit_info"]["resetsAt"] for event in events if event["type"] == "rate_limit_event")
    assert claude.perform().resets_at == told
    then = time.localtime(time.time() + 10 * 86_400)
    codex.stand_in(
        """echo '{"type":"turn.failed","error":{"message":"You’ve hit your usage limit. """
        f"""Try again at {time.strftime("%b %d, %Y", then)} 7:55 AM."}}}}'; exit 1"""
    )
    resets_at = codex.perform().resets_at
    assert resets_at is not None
    assert time.strftime("%Y-%m-%d %H:%M", time.localtime(resets_at)) == time.strftime("%Y-%m-%d 07:55", then)


def test_a_program_that_tries_in_vain_is_ended(tmp_path: Path) -> None:
    """The program itself would retry a used-up limit for hours."""
    place = Place(tmp_path / "p", "aider")
    place.stand_in(f"cat {RECORDINGS}/aider/aider-usage-limit.txt; exec sleep 60")
    answer = place.perform()
    assert (answer.ended, answer.trouble) == ("failed", "usage_limit")
    assert answer.spent.seconds < 20


def test_a_wrong_key_is_not_asked_with_again_and_again(tmp_path: Path) -> None:
    """The program is ended after two refusals."""
    place = Place(tmp_path / "p", "claude")
    place.stand_in(f"head -n 3 {RECORDINGS}/claude/claude-authentication.jsonl; exec sleep 60")
    answer = place.perform()
    assert (answer.ended, answer.trouble) == ("failed", "authentication")
    assert answer.spent.seconds < 20


def test_garbage_between_the_events_is_kept_and_does_no_harm(place: Place) -> None:
    """The garbage is warnings, half a line, other JSON, invalid text and unknown events."""
    garbage = (
        r"""printf 'warning: \377\376\n{"type":\n[1]\n"x"\n{"type":["item.completed"]}\n{"type":"new.kind"}\n\n'"""
    )
    deep = 'printf \'%s\\n\' \'{"type":"item.completed","item":' + "[" * 3000 + "'"
    place.replay("codex-success.jsonl", before=f"{garbage}\n{deep}")
    answer = place.perform()
    assert answer.ended == "finished"
    notes = [entry.text for entry in read_transcript(_transcript(place)) if isinstance(entry, Noted)]
    assert notes[0].startswith("warning: ")


def test_a_lone_surrogate_is_no_reason_to_lose_the_record(place: Place) -> None:
    """JSON can hold what UTF-8 cannot. The transcript is still written."""
    event = r'{"type":"item.completed","item":{"id":"i","type":"command_execution","command":"\ud800","exit_code":0}}'
    place.replay("codex-success.jsonl", before=f"cat <<'END'\n{event}\nEND")
    assert place.perform().ended == "finished"


def test_a_huge_line_costs_memory_within_bounds(place: Place) -> None:
    """A line too long for an event is skipped with a note, and later events count."""
    place.replay("codex-success.jsonl", before="head -c 40000000 /dev/zero; echo")
    answer = place.perform()
    assert answer.ended == "finished"
    assert _transcript(place).stat().st_size < 100_000
    assert "a line of more than 16,777,216 bytes was left out" in answer.log_tail


def test_a_long_result_is_kept_by_both_ends(place: Place) -> None:
    """The transcript does not grow with a tool's output."""
    output = "first" + "x" * 500_000 + "last"
    item = {"id": "i", "type": "command_execution", "command": "c", "aggregated_output": output, "exit_code": 1}
    (place.folder / "long").write_text(json.dumps({"type": "item.completed", "item": item}) + "\n")
    place.replay("codex-success.jsonl", before=f"cat {place.folder}/long")
    place.perform()
    result = next(entry.result for entry in read_transcript(_transcript(place)) if isinstance(entry, Answered))
    assert result.is_error
    assert result.text.startswith("first")
    assert result.text.endswith("last")
    assert len(result.text) < 40_000


def test_a_silent_program_is_idle(place: Place) -> None:
    """Silence beyond the limit ends it, and the message has its last output."""
    place.limits = Limits(wall_s=20, idle_s=0.4)
    place.stand_in("echo 'still connecting'; exec sleep 60")
    answer = place.perform()
    assert answer.ended == "idle"
    assert answer.detail.endswith("it last said: still connecting")


def test_a_program_that_takes_too_long_is_ended(place: Place) -> None:
    """This holds even if it is busy."""
    place.limits = Limits(wall_s=0.5, idle_s=20)
    place.stand_in("while :; do echo '{}'; sleep 0.05; done")
    assert place.perform().ended == "timeout"


def test_nothing_of_a_program_outlives_it(place: Place) -> None:
    """A server that it left in another session is ended, too."""
    place.replay("codex-success.jsonl", before="setsid sleep 300 & echo $! > ../child")
    assert place.perform().ended == "finished"
    assert not tree.alive(int((place.folder / "child").read_text()))


def test_events_are_in_the_transcript_while_the_program_runs(place: Place) -> None:
    """A worker killed in the meantime loses none of the earlier output."""
    place.stand_in(f"head -n 5 {RECORDINGS}/codex/codex-success.jsonl; exec sleep 60")
    answer = place.perform(stop=lambda: "I write it." in _transcript(place).read_text())
    assert answer.ended == "stopped"
    said = [entry.turn for entry in read_transcript(_transcript(place)) if isinstance(entry, TurnSaid)]
    assert [turn.role for turn in said] == ["user", "assistant", "assistant"]


@pytest.mark.parametrize(
    ("program", "limits", "detail"),
    [
        ("codex", Limits(turns=1), "codex used its 1 turns without finishing"),
        ("claude", Limits(tokens=100), "claude used more than its 100 tokens"),
    ],
)
def test_a_limit_ends_a_program(tmp_path: Path, program: CliProgram, limits: Limits, detail: str) -> None:
    """It ends once its reported use exceeds the limit."""
    place = Place(tmp_path / "p", program, limits=limits)
    lines = (RECORDINGS / program / _SUCCESS[program]).read_text().splitlines()
    (tmp_path / "begun").write_text("\n".join(lines[:-1]) + "\n")
    place.stand_in(f"cat {tmp_path}/begun; exec sleep 60")
    answer = place.perform()
    assert (answer.ended, answer.detail) == ("limits", detail)


def test_a_missing_program_is_the_hosts_trouble(place: Place) -> None:
    """Another host may have it, and the sentence says how it is installed."""
    assignment = place.assignment("", None, {"PATH": "/nowhere"}, "")
    from forgepool.workers.agents.cli import perform_cli

    answer = perform_cli(assignment, stop=lambda: False, lookup=KEYS.get)
    assert (answer.ended, answer.trouble) == ("failed", "unavailable")
    assert answer.detail == "codex is not on the worker's PATH; install it there: npm install -g @openai/codex"


def test_a_program_without_a_key_is_not_started(tmp_path: Path) -> None:
    """A person is told which variable to set. Another vendor's key does not count."""
    place = Place(tmp_path / "p", "claude")
    place.stand_in("touch ../started")
    answer = place.perform(given={"OPENAI_API_KEY": KEY})
    assert (answer.ended, answer.trouble) == ("failed", "authentication")
    assert "claude has no key; set ANTHROPIC_API_KEY or " in answer.detail
    assert not (place.folder / "started").exists()


def test_a_program_gets_its_own_key_and_no_other(tmp_path: Path) -> None:
    """It gets only the secret it needs. A plan cannot redirect it to another server, and its home is the attempt's."""
    place = Place(tmp_path / "p", "opencode")
    place.replay("opencode-success.jsonl", before="env > ../env")
    redirected = {"ANTHROPIC_BASE_URL": "http://elsewhere.invalid", "OPENCODE_CONFIG": "x", "COLOUR": "blue"}
    place.perform(given={"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": "sk-other-1"}, env=redirected)
    env = dict(line.partition("=")[::2] for line in (place.folder / "env").read_text().splitlines())
    assert (env["ANTHROPIC_API_KEY"], env["COLOUR"], env["FORGEPOOL_TASK"]) == (KEY, "blue", "words")
    assert not {"OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "OPENCODE_CONFIG"} & set(env)
    assert env["HOME"] == str(place.folder / "home")


def test_a_key_that_is_printed_is_kept_nowhere(place: Place) -> None:
    """The agent prints its environment, and neither transcript nor log has the key."""
    place.replay("codex-success.jsonl", before='echo "leaked $OPENAI_API_KEY"')
    answer = place.perform()
    kept = [_transcript(place).read_text(), (place.folder / "logs" / "agent.log").read_text(), answer.log_tail]
    assert all("leaked [key]" in text and KEY not in text for text in kept)


@pytest.mark.parametrize("program", ["claude", "codex", "opencode"])
def test_a_long_task_reaches_a_program(tmp_path: Path, program: CliProgram) -> None:
    """It arrives on standard input, because no command line is long enough."""
    place = Place(tmp_path / "p", program)
    place.replay(_SUCCESS[program])
    (place.worktree / "AGENTS.md").write_text("be kind")
    priors = (CardSection(name="the summary of 'it'", forms=("PRIOR ANALYSIS:\nit began",)),)
    assert place.perform(description="word " * 100_000, priors=priors).ended == "finished"
    told = (place.folder / "stdin").read_text()
    assert "# Task words: A new word" in told
    assert "PRIOR ANALYSIS:\nit began" in told
    assert told.count("word ") >= 100_000
    assert "The repository's rules are in AGENTS.md" in told


def test_a_money_limit_is_the_programs_too(tmp_path: Path) -> None:
    """The program gets the limit if it has an option for it."""
    place = Place(tmp_path / "p", "claude", limits=Limits(cost_usd=0.25))
    place.replay("claude-success.jsonl", before='echo "$@" > ../argv')
    place.perform()
    assert "--max-budget-usd 0.25" in (place.folder / "argv").read_text()


def test_what_a_program_leaves_lying_about_is_removed(tmp_path: Path) -> None:
    """Only its own files are removed, and none that existed before."""
    place = Place(tmp_path / "p", "aider")
    (place.worktree / ".aider.conf.yml").write_text("a: 1\n")
    place.replay("aider-success.txt", before="mkdir .aider.tags; touch .aider.tags/x .aider.y; echo new > b.txt")
    place.perform()
    assert place.changed() == [".aider.conf.yml", "b.txt"]


def test_installed_programs_are_told_with_their_versions(place: Place) -> None:
    """A program without a version is listed. A missing one is not."""
    for name, script in (
        ("codex", "echo codex-cli 0.169.0"),
        ("claude", "echo '2.1.329 (Claude Code)'"),
        ("aider", ""),
    ):
        place.program = name  # type: ignore[assignment]  # from a literal list
        place.stand_in(script)
    bin_only = os.pathsep.join((str(place.folder / "bin"), "/nowhere"))
    assert find_installed(bin_only) == {"claude": "2.1.329", "codex": "0.169.0", "aider": "unknown"}


def test_a_program_is_not_started_where_nobody_can_let_it_out_to_its_server_alone(tmp_path: Path) -> None:
    """The fallback sandbox gives no network at all, and is not dropped for the program."""
    place = Place(tmp_path, "claude")
    place.stand_in("touch started; exit 0\n")
    assignment = replace(place.assignment("", None, {}, "x"), confined=Confinement(level="landlock"))
    answer = perform_cli(assignment, stop=lambda: False, lookup=KEYS.get)
    assert answer.ended == "failed" and "install bubblewrap" in answer.detail
    assert not (place.worktree / "started").exists()
