"""Where the plan says so, the target's checks run before the built-in agent's work counts as verified."""

from pathlib import Path
from typing import Any

import pytest
from host_kit import Host

from forgepool.workers.context.transcript.entries import Verified
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.schema.orders import ScriptedAgent, WorkResult
from forgepool.workers.schema.policy_rules import ScanTerms, VerifyTerms

GATE = """version: 1
checks:
  sound:
    setup: touch made
    run: "echo seen; test -e made && test ! -e kept-out && ! grep -n BROKEN a.py"
    paths: ["*.py"]
  docs: {run: "false", paths: ["docs/**"]}
  known: {run: "! grep -rn BROKEN known.py a.py"}
  advice: {run: "false", voting: false}
"""
FILES = {"forgepool.yaml": GATE, "a.py": "A = 1\n", "known.py": "BROKEN = 1\n", ".gitignore": "made\nkept-out\n"}
BROKEN, SOUND = "A = 2\nBROKEN = 1\n", "A = 3\n"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path, FILES)


def work(host: Host, *contents: str, rounds: int = 2, within_s: float = 60.0, **said: Any) -> WorkResult:
    """Write a.py once for each content, and say each time that it is done."""
    written = (content.replace("\n", "\\n") for content in contents)
    turns = "".join(
        f'  - calls: [{{tool: write_file, path: a.py, content: "{text}"}}, {{tool: finish, summary: done}}]\n'
        for text in written
    )
    terms = ScanTerms(verify=VerifyTerms(rounds=rounds, within_s=within_s))
    usual = {"scans": terms, "acceptance": ("touch kept-out",)}
    return host.carry_out(agent=ScriptedAgent(script=f"turns:\n{turns}"), **(usual | said))


def reds(host: Host) -> list[Verified]:
    return [entry for entry in host.transcript() if isinstance(entry, Verified) and not entry.ok]


def logs(host: Host) -> list[str]:
    return sorted(path.name for path in host.settings.home.glob("runs/r/logs/orders/t/1/verify*.log"))


def test_a_red_check_comes_back_and_what_the_gate_would_not_hold_against_the_work_does_not(host: Host) -> None:
    """It runs behind its set-up, in a checkout without the agent's ignored files; on the base it is green."""
    done = work(host, BROKEN, SOUND)
    assert done.outcome == "candidate", done.detail
    (red,) = reds(host)
    assert red.detail == "the target's check 'sound' exited with 1" and red.by_checks
    assert "BROKEN = 1" in red.output and "seen" in red.output
    assert host.content(done.commit, "a.py") == SOUND.strip()
    assert {name for name in logs(host) if "docs" in name or "advice" in name} == set()
    assert "verify-base-known.log" in logs(host)


@pytest.mark.parametrize(
    ("contents", "said", "times"),
    [
        ((BROKEN,), {"scans": ScanTerms()}, 0),
        ((BROKEN, BROKEN), {}, 1),
        ((BROKEN, BROKEN + "#\n", BROKEN + "##\n"), {}, 2),
        ((BROKEN, BROKEN + "#\n"), {"rounds": 1}, 1),
    ],
    ids=["not asked for", "said twice of the same files", "two rounds", "one round"],
)
def test_a_red_check_keeps_no_work_from_the_gate(
    host: Host, contents: tuple[str, ...], said: dict[str, Any], times: int
) -> None:
    done = work(host, *contents, **said)
    assert done.outcome == "candidate", done.detail
    assert len(reds(host)) == times


SLOW = "A = 2\nSLOW = 1\n"
PLANS = "! grep SLOW a.py"
"""A command of the plan's own check, which comes whole with the order."""


@pytest.mark.parametrize(
    ("said", "within_s", "red"),
    [
        ({"run": f"{PLANS} || ! sleep 20", "timeout_s": 0.5}, 60.0, "did not end within"),
        ({"run": f"{PLANS} || ! sleep 20"}, 2.0, ""),
        ({"run": f"{PLANS} || echo >> a.py"}, 60.0, "changed tracked files, which a check must leave as it found them"),
        ({"run": "true", "setup": PLANS}, 60.0, "could not be set up: ended with 1"),
        ({"run": PLANS, "network": ("packages.example.org",)}, 60.0, ""),
    ],
    ids=["its own time", "the round's time", "it changes files", "its set-up", "a host that is not allowed"],
)
def test_a_check_is_red_by_its_end_and_what_cannot_be_run_here_is_left_to_the_gate(
    host: Host, said: dict[str, Any], within_s: float, red: str
) -> None:
    check = CheckDefinition(name="plans", **said)
    terms = ScanTerms(verify=VerifyTerms(within_s=within_s), definitions=(check.model_dump_json(),))
    assert work(host, SLOW, SOUND, scans=terms).outcome == "candidate"
    assert [one.detail.startswith(f"the target's check 'plans' {red}") for one in reds(host)] == [True] * bool(red)


def test_an_attempt_that_is_stopped_while_checks_run_brings_no_candidate(host: Host) -> None:
    slow = CheckDefinition(name="slow", run="sleep 20")
    terms = ScanTerms(verify=VerifyTerms(), definitions=(slow.model_dump_json(),))
    done = work(host, SOUND, scans=terms, stop=lambda: "verify-slow.log" in logs(host))
    assert done.outcome != "candidate" and reds(host) == []
