"""Nothing lands unless the target's gate file is a regular file and its history has only grown."""

import pytest
from gates import Gate, check
from repositories import git

GATE = {"forgepool.yaml": "version: 1\nchecks: {test: 'true'}\n"}


def test_what_was_made_on_a_commit_that_was_taken_out_of_the_target_is_stale(gate: Gate) -> None:
    """Merging it would bring the removed commit back. It is neither a failure nor a conflict."""
    start = gate.hub.tip()
    out = gate.hub.commit({"a": "bad idea\n"})
    entry = gate.entry("one", {"b": "2\n"})
    assert gate.examine(gate.request(entry, check("true"))).verdict == "green"
    git(gate.hub.path, "update-ref", "refs/heads/main", start)
    found = gate.examine(gate.request(entry, check("true")))
    assert (found.verdict, found.commit, found.certificates) == ("stale", None, ())
    assert found.detail == f"'one' was made on {out[:12]}, which is no longer in main"


def test_what_was_made_on_an_older_commit_of_the_target_is_not_stale(gate: Gate) -> None:
    entry = gate.entry("one", {"b": "2\n"})
    gate.hub.commit({"a": "meanwhile\n"})
    assert gate.examine(gate.request(entry, check("true"))).verdict == "green"


def put(gate: Gate, kind: str) -> None:
    """Replace the gate file on the target by something else."""
    there = gate.hub.work / "forgepool.yaml"
    match kind:
        case "symlink":
            there.symlink_to("a")
        case "folder":
            there.mkdir()
            (there / "inside").write_text("x")
        case _:
            gitlink = f"160000,{gate.hub.tip()},forgepool.yaml"
            git(gate.hub.work, "update-index", "--add", "--cacheinfo", gitlink)
    if kind != "submodule":
        git(gate.hub.work, "add", "-A")
    git(gate.hub.work, "commit", "-q", "-m", kind)
    git(gate.hub.work, "push", "-q", "origin", "HEAD:main")


@pytest.mark.parametrize("kind", ["symlink", "folder", "submodule"])
def test_a_gate_file_that_is_no_file_lets_nothing_in(gate: Gate, kind: str) -> None:
    """This holds even if the plan has its own check, because the target's may be stricter."""
    put(gate, kind)
    entry = gate.entry("one", {"b": "2\n"}, on=git(gate.hub.path, "rev-parse", "main~1"))
    found = gate.examine(gate.request(entry, check("true")))
    assert found.verdict == "not_configured"
    assert found.detail == f"main:forgepool.yaml is a {kind}; make it a regular file"


def test_a_gate_file_that_is_too_large_lets_nothing_in(gate: Gate) -> None:
    gate.hub.commit({"forgepool.yaml": GATE["forgepool.yaml"] + "#" * 1_000_001})
    found = gate.examine(gate.request(gate.entry("one", {"b": "2\n"}), check("true")))
    assert found.verdict == "not_configured"
    assert "main:forgepool.yaml is too large" in found.detail


def test_a_gate_file_that_goes_while_a_run_is_on_shuts_the_gate(gate: Gate) -> None:
    gate.hub.commit(GATE)
    gate.hub.commit({"forgepool.yaml": None})
    entry = gate.entry("one", {"b": "2\n"})
    found = gate.examine(gate.request(entry, check("true"), had_gate_file=True))
    assert found.verdict == "not_configured"
    assert found.detail == "forgepool.yaml has gone from main; put it back, or start a new run"
    assert gate.examine(gate.request(entry, check("true"))).verdict == "green"


def test_the_lander_too_misses_a_gate_file_that_has_gone(gate: Gate) -> None:
    request = gate.request(gate.entry("one", {"b": "2\n"}), check("true"))
    found = gate.examine(request)
    landed = gate.land(gate.landing(request, found, had_gate_file=True))
    assert landed.outcome == "refused"
    assert "forgepool.yaml has gone from main" in landed.detail
