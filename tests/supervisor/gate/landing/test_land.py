"""Only what was found green lands, by the target's checks, on its present tip, and only once."""

import os
import subprocess
from pathlib import Path

import pytest
from gates import Gate, check
from repositories import git

from forgepool.supervisor.checks.certificates import certificate_key, certify
from forgepool.supervisor.messages.answers import Certificate, CheckResult
from forgepool.supervisor.messages.requests import CheckRequest
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.refs import marker_ref

TEST = check("! grep -q bad a")


@pytest.fixture
def green(gate: Gate) -> tuple[CheckRequest, CheckResult]:
    request = gate.request(gate.entry("one", {"b": "2\n"}), TEST)
    found = gate.examine(request)
    assert found.verdict == "green"
    return request, found


Green = tuple[CheckRequest, CheckResult]


def test_what_was_found_green_lands_as_it_was(gate: Gate, green: Green) -> None:
    request, found = green
    landed = gate.land(gate.landing(request, found))
    assert (landed.outcome, landed.commit) == ("landed", found.commit)
    assert gate.hub.tip() == found.commit
    assert git(gate.hub.path, "rev-parse", marker_ref("r", "one")) == found.commit
    assert git(gate.hub.path, "rev-parse", "main^{tree}") == found.tree


def test_what_has_landed_is_answered_with_its_commit_and_lands_no_second_time(gate: Gate, green: Green) -> None:
    request, found = green
    gate.land(gate.landing(request, found))
    after = gate.hub.commit({"a": "later\n"})
    again = gate.land(gate.landing(request, found))
    assert (again.outcome, again.commit) == ("landed", found.commit)
    assert gate.hub.tip() == after
    log = git(gate.hub.path, "log", "--format=%H", "--grep", "Forgepool-Task: one", "main")
    assert log.split() == [found.commit]


def test_a_second_attempt_of_what_has_landed_does_not_land_besides(gate: Gate, green: Green) -> None:
    """
    The answer of the first landing was lost, so the task was tried again. The marker of the first landing is found.
    """
    request, found = green
    gate.land(gate.landing(request, found))
    second = gate.request(gate.entry("one", {"b": "another\n"}, attempt=2), TEST)
    landed = gate.land(gate.landing(second, gate.examine(second)))
    assert (landed.outcome, landed.commit) == ("landed", found.commit)
    assert gate.hub.tip() == found.commit


@pytest.mark.parametrize("branch", ["main", "trunk"])
def test_a_host_with_another_repository_at_the_hubs_path_says_so_of_itself(
    gate: Gate, green: Green, branch: str
) -> None:
    """The target has neither moved nor gone. The host had all commits from before."""
    request, found = green
    anchor = "refs/forgepool/r/journal"
    git(gate.hub.path, "update-ref", anchor, "main")
    landing = gate.landing(request, found, anchor=anchor)
    gate.hub.path.rename(gate.folder / "away")
    git(gate.folder, "init", "-q", "-b", branch, "another")
    git(gate.folder / "another", "commit", "-q", "--allow-empty", "-m", "another")
    git(gate.folder, "clone", "-q", "--bare", "another", str(gate.hub.path))
    landed = gate.land(landing)
    said = f"host {Settings().host} has another repository at {gate.hub.path}, without {anchor}"
    assert landed.outcome == "infrastructure" and landed.detail.startswith(said)
    lost = gate.examine(request.model_copy(update={"base": "1" * 40, "anchor": anchor}))
    assert lost.verdict == "infrastructure" and lost.detail.startswith(said)


def test_a_target_that_moved_is_left_alone_and_its_tip_told(gate: Gate, green: Green) -> None:
    request, found = green
    moved = gate.hub.commit({"a": "meanwhile\n"})
    git(gate.hub.path, "update-ref", "refs/forgepool/r/journal", moved)
    landed = gate.land(gate.landing(request, found, anchor="refs/forgepool/r/journal"))
    assert (landed.outcome, landed.commit) == ("moved", moved)
    assert gate.hub.tip() == moved
    assert marker_ref("r", "one") not in git(gate.hub.path, "for-each-ref", "--format=%(refname)")


def test_a_target_that_is_gone_is_not_made_anew(gate: Gate, green: Green) -> None:
    request, found = green
    git(gate.hub.path, "update-ref", "-d", "refs/heads/main")
    landed = gate.land(gate.landing(request, found))
    assert landed.outcome == "refused"
    assert "main is gone" in landed.detail
    assert "refs/heads/main\n" not in git(gate.hub.path, "for-each-ref", "--format=%(refname)") + "\n"


def earned(check: CheckDefinition, inputs: str) -> Certificate:
    return certify(check, (check,), inputs=inputs, environment="here", seconds=1.0, host="here")


def forged(found: CheckResult, **said: str) -> dict[str, object]:
    return {"certificates": tuple(one.model_copy(update=said) for one in found.certificates)}


@pytest.mark.parametrize("what", ["none", "key", "tree", "definition", "name", "other tree", "other definition"])
def test_without_a_valid_certificate_of_every_check_for_this_tree_nothing_lands(
    gate: Gate, green: Green, what: str
) -> None:
    request, found = green
    elsewhere = "0" * 40
    cases: dict[str, dict[str, object]] = {
        "none": {"certificates": ()},
        "key": forged(found, key="0" * 64),
        "tree": forged(found, tree=elsewhere),
        "definition": forged(found, definition="0" * 64),
        "name": forged(found, check="lint"),
        "other tree": {"certificates": (earned(TEST, elsewhere),)},
        "other definition": {"certificates": (earned(check("true"), found.tree or ""),)},
    }
    before = gate.hub.tip()
    landed = gate.land(gate.landing(request, found, **cases[what]))
    assert landed.outcome == "refused"
    assert "no valid certificate of test" in landed.detail
    assert gate.hub.tip() == before


def test_a_certificate_rewritten_for_another_tree_needs_that_trees_key(gate: Gate, green: Green) -> None:
    """The key depends on every field, so moving it to another tree means forging the key, too."""
    _, found = green
    one = found.certificates[0]
    assert one.key == certificate_key(one.check, one.definition, one.environment, one.tree)
    assert one.key != certificate_key(one.check, one.definition, one.environment, "0" * 40)
    assert one.key != certificate_key(one.check, one.definition, "another system", one.tree)


def test_a_commit_that_is_not_what_the_entries_compose_to_is_refused(gate: Gate, green: Green) -> None:
    request, found = green
    other = gate.examine(gate.request(gate.entry("other", {"b": "3\n"}), TEST))
    swapped = {"commit": other.commit, "tree": other.tree, "certificates": other.certificates}
    landed = gate.land(gate.landing(request, found, **swapped))
    assert landed.outcome == "refused"
    assert "is not what the entries compose to" in landed.detail


def test_a_tree_that_is_not_the_commits_is_refused(gate: Gate, green: Green) -> None:
    request, found = green
    before = gate.hub.tip()
    assert gate.land(gate.landing(request, found, tree="0" * 40)).outcome == "refused"
    assert gate.hub.tip() == before


def test_entries_that_conflict_are_refused(gate: Gate, green: Green) -> None:
    request, found = green
    entry = gate.entry("one", {"a": "mine\n"}, attempt=2)
    gate.hub.commit({"a": "theirs\n"})
    landed = gate.land(gate.landing(request, found, entries=(entry,), base=gate.hub.tip()))
    assert landed.outcome == "refused"


def test_what_was_made_on_a_commit_that_was_taken_out_of_the_target_is_refused(gate: Gate, green: Green) -> None:
    request, found = green
    start = gate.hub.tip()
    gate.hub.commit({"a": "bad idea\n"})
    entry = gate.entry("one", {"b": "3\n"}, attempt=2)
    git(gate.hub.path, "update-ref", "refs/heads/main", start)
    landed = gate.land(gate.landing(request, found, entries=(entry,)))
    assert landed.outcome == "refused"
    assert "which is no longer in main" in landed.detail
    assert gate.hub.tip() == start


def test_a_check_added_to_the_target_since_needs_its_certificate(gate: Gate, green: Green) -> None:
    """The request is made again on the new tip, with the certificates of the old one."""
    request, _ = green
    gate.hub.commit({"forgepool.yaml": "version: 1\nchecks: {lint: test -e a}\n"})
    anew = request.model_copy(update={"base": gate.hub.tip()})
    fresh = gate.examine(anew)
    kept = tuple(one for one in fresh.certificates if one.check == "test")
    landed = gate.land(gate.landing(anew, fresh, certificates=kept))
    assert landed.outcome == "refused"
    assert "no valid certificate of lint" in landed.detail


def test_without_checks_nothing_lands_unless_that_was_said(gate: Gate) -> None:
    request = gate.request(gate.entry("one", {"b": "2\n"}), checks_waived=True)
    found = gate.examine(request)
    silent = gate.landing(request, found, checks_waived=False)
    assert gate.land(silent).outcome == "refused"
    assert gate.land(gate.landing(request, found)).outcome == "landed"


def test_a_hub_that_is_away_is_to_be_asked_again(gate: Gate, green: Green) -> None:
    request, found = green
    gate.hub.path.rename(gate.folder / "away.git")
    assert gate.land(gate.landing(request, found)).outcome == "infrastructure"
    (gate.folder / "away.git").rename(gate.hub.path)
    assert gate.land(gate.landing(request, found)).outcome == "landed"


def test_a_hub_that_refuses_says_why(gate: Gate, green: Green) -> None:
    request, found = green
    hook = gate.hub.path / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho closed for the weekend >&2\nexit 1\n")
    hook.chmod(0o755)
    landed = gate.land(gate.landing(request, found))
    assert landed.outcome == "refused"
    assert "closed for the weekend" in landed.detail
    assert gate.hub.tip() == request.base


def test_a_request_that_is_given_up_moves_nothing(gate: Gate) -> None:
    """Its lease has ended, and another host may be deciding about the entry already."""
    tip = gate.hub.tip()
    request = gate.request(gate.entry("one", {"b": "2\n"}), check("true"))
    landing = gate.land(gate.landing(request, gate.examine(request)), stop=lambda: True)
    assert (landing.outcome, gate.hub.tip()) == ("infrastructure", tip)


def test_a_marker_of_what_the_target_does_not_have_tells_of_no_landing(gate: Gate, green: Green) -> None:
    """
    Such a marker comes from a lost journal or from a person. It does not count as a landing and does not block one.
    """
    request, found = green
    stranger = gate.hub.commit({"x": "x\n"}, branch="elsewhere")
    git(gate.hub.path, "update-ref", marker_ref("r", "one"), stranger)
    landed = gate.land(gate.landing(request, found))
    assert (landed.outcome, landed.commit) == ("landed", found.commit) and gate.hub.tip() == found.commit
    assert git(gate.hub.path, "rev-parse", marker_ref("r", "one")) == found.commit


def test_several_land_in_one_move_each_with_its_marker(gate: Gate) -> None:
    first, second = gate.entry("one", {"b": "2\n"}), gate.entry("two", {"c": "3\n"})
    request = gate.request(second, TEST, ahead=(first,))
    found = gate.examine(request)
    together = gate.landing(request, found, ahead=(), entries=(first, second))
    landed = gate.land(together)
    assert (landed.outcome, landed.commit, gate.hub.tip()) == ("landed", found.commit, found.commit)
    markers = [git(gate.hub.path, "rev-parse", marker_ref("r", name)) for name in ("one", "two")]
    assert markers == list(found.commits) and markers[1] == found.commit


def test_what_changes_the_gate_lands_before_anybody_is_tried_behind_it(gate: Gate) -> None:
    gate.hub.commit({"forgepool.yaml": "version: 1\nchecks: {test: '! grep -q bad a'}\n"})
    looser = gate.entry("one", {"forgepool.yaml": "version: 1\nchecks: {test: test -e a}\n"})
    second = gate.entry("two", {"c": "3\n"})
    found = gate.examine(gate.request(second, ahead=(looser,)))
    assert (found.verdict, found.about) == ("apart", "one")


def test_a_red_behind_what_was_landing_is_seen_again_in_any_clone_once_that_has_landed(
    gate: Gate, tmp_path: Path
) -> None:
    """The entry ahead is then found only in the target's history, by whichever style it landed."""
    ahead = gate.entry("one", {"b": "2\n"})
    bad = gate.entry("two", {"a": "bad\n"})
    for style in ("merge", "squash"):
        request = gate.request(bad, TEST, ahead=(ahead,), style=style)
        found = gate.examine(request)
        assert found.verdict == "red" and ahead.ref not in found.reproduce
        landing = gate.request(ahead, TEST, style=style)
        composed = gate.examine(landing)
        hub = tmp_path / f"hub-{style}"
        git(tmp_path, "clone", "-q", "--mirror", str(gate.hub.path), str(hub))
        git(hub, "fetch", "-q", str(gate.mirror.path), composed.commit or "")
        git(hub, "update-ref", "refs/heads/main", composed.commit or "")
        git(hub, "update-ref", "-d", ahead.ref)
        work = tmp_path / f"work-{style}"
        git(tmp_path, "clone", "-q", "--no-checkout", str(hub), str(work))
        again = found.reproduce.replace(str(gate.hub.path), str(hub))
        me = {"GIT_AUTHOR_NAME": "t", "GIT_COMMITTER_NAME": "t", "EMAIL": "t@localhost", "PATH": os.environ["PATH"]}
        steps, _, check_itself = again.rpartition(" && ")
        assert subprocess.run(["sh", "-c", steps], cwd=work, env=me, capture_output=True).returncode == 0
        assert check_itself == TEST.run
        assert subprocess.run(["sh", "-c", check_itself], cwd=work, env=me).returncode == 1
