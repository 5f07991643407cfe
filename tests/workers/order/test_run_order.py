"""One order: the files that the agent leaves are the candidate, exactly once, whatever else it did or said."""

from pathlib import Path
from typing import Any

import pytest
from host_kit import Host as AnyHost
from repositories import git

from forgepool.workers.order.run_order import carry_out
from forgepool.workers.schema.orders import CommandAgent, WorkOrder, WorkResult
from forgepool.worktrees.git.objects import close_readers


class Host(AnyHost):
    """A host whose agents are commands."""

    def order(self, run: str = "", **said: Any) -> WorkOrder:
        return super().order(agent=CommandAgent(run=run), **said)

    def carry_out(self, run: str = "", **said: Any) -> WorkResult:
        return carry_out(self.order(run, **said), self.settings, stop=lambda: False)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_what_the_agent_leaves_is_the_candidate_and_the_hub_keeps_it(host: Host) -> None:
    done = host.carry_out("echo 2 > a && echo new > c && rm b")
    assert (done.outcome, done.paths, done.token, done.host) == ("candidate", ("a", "b", "c"), "tok", "here")
    assert git(host.hub, "rev-parse", "refs/forgepool/r/orders/t/1^{commit}") == done.commit
    assert host.hub_refs().split() == ["refs/forgepool/r/orders/t/1", "refs/heads/main"], "one ref has the result, too"
    assert git(host.hub, "rev-parse", f"{done.commit}^") == host.base
    message = git(host.hub, "log", "-1", "--format=%B", done.commit or "")
    assert message.startswith("Change a\n") and "Forgepool-Task: t" in message
    assert git(host.hub, "rev-parse", "main") == host.base, "the target is not the worker's business"


def test_commits_of_the_agent_itself_become_one_candidate_on_the_base(host: Host) -> None:
    """An agent can commit only without a sandbox."""
    host.unconfined()
    commit = "git -c user.name=x -c user.email=x commit -qam mine"
    done = host.carry_out(f"echo 2 > a && {commit} && echo 3 > b")
    assert (done.outcome, done.paths) == ("candidate", ("a", "b")), done
    assert git(host.hub, "rev-parse", f"{done.commit}^") == host.base


@pytest.mark.parametrize(
    ("run", "said", "outcome", "detail"),
    [
        ("true", {}, "no_change", "changed no file"),
        ("exit 3", {}, "agent_failed", "3"),
        ("echo 2 > a; exit 3", {}, "agent_failed", "3"),
        ("no-such-program", {}, "agent_failed", "127"),
        ("echo 2 > a", {"acceptance": ("true", "grep -q 9 a")}, "verify_failed", "'grep -q 9 a' exited with 1"),
        ("echo 2 > a", {"acceptance": ("no-such-program",)}, "verify_failed", "127"),
        ("echo 2 > a", {"base": "1" * 40}, "infrastructure", ""),
        ("echo 2 > a", {"hub": "/no/such/hub"}, "infrastructure", "/no/such/hub"),
    ],
)
def test_without_a_candidate_the_outcome_says_whose_doing_it_was(
    host: Host, run: str, said: dict[str, Any], outcome: str, detail: str
) -> None:
    done = host.carry_out(run, **said)
    assert (done.outcome, done.commit) == (outcome, None), done
    assert detail in done.detail and done.detail
    assert "refs/forgepool/r/orders" not in git(host.hub, "for-each-ref", "--format=%(refname)")


def test_changing_nothing_is_no_change_only_while_the_acceptance_commands_are_green(host: Host) -> None:
    """Only the commands show that the work is there already."""
    green = host.carry_out("true", unchanged="ok", acceptance=("test -e a",))
    assert (green.outcome, green.commit) == ("no_change", None)
    red = host.carry_out("true", unchanged="ok", acceptance=("test -e nowhere",))
    assert (red.outcome, red.commit) == ("verify_failed", None)
    failed = host.carry_out("exit 3", unchanged="ok")
    assert failed.outcome == "agent_failed", "a command that failed is not one that had nothing to do"


def test_an_order_delivered_twice_gives_one_candidate(host: Host) -> None:
    """Two workers did the work differently. The first one's stands, and both answer with it."""
    first = host.carry_out("echo 2 > a")
    second = host.carry_out("echo 3 > a", token="later")
    assert (second.commit, second.token) == (first.commit, "later")


def test_an_order_sent_again_is_not_done_again(host: Host, tmp_path: Path) -> None:
    host.unconfined()
    count = f"echo x >> {tmp_path}/count && echo 2 > a"
    first = host.carry_out(count)
    again = host.carry_out(count, resent=True, token="later")
    assert (again.commit, again.token) == (first.commit, "later")
    assert (tmp_path / "count").read_text() == "x\n"


def test_a_result_that_an_older_version_left_is_found(host: Host, tmp_path: Path) -> None:
    """It kept the candidate's commit and the result apart."""
    first = host.carry_out("echo 2 > a")
    blob = tmp_path / "result.json"
    blob.write_text(first.encode())
    git(host.hub, "update-ref", "refs/forgepool/r/orders/t/1", first.commit or "")
    lost = host.carry_out("echo 3 > a", resent=True)
    assert (lost.outcome, lost.detail[-26:]) == ("infrastructure", "is taken, without a result"), lost
    git(host.hub, "update-ref", "refs/forgepool/r/results/t/1", git(host.hub, "hash-object", "-w", str(blob)))
    again = host.carry_out("echo 3 > a", resent=True, token="later")
    assert (again.commit, again.token) == (first.commit, "later")


@pytest.mark.parametrize("damage", ["all are empty", "a tree is gone"])
def test_a_mirror_that_lost_objects_is_made_anew_and_costs_at_most_one_try(host: Host, damage: str) -> None:
    """A loss of power leaves files like this."""
    assert host.carry_out("echo 2 > a").outcome == "candidate"
    (mirror,) = (host.settings.cache / "mirrors").glob("*.git")
    tree = git(host.hub, "rev-parse", "main^{tree}")
    before = mirror.stat().st_ino
    for file in [one for one in (mirror / "objects").glob("*/*") if one.is_file()]:
        if damage == "all are empty":
            file.unlink()
            file.touch()
        elif file.parent.name + file.name == tree:
            file.unlink()
    close_readers()
    tries = [host.carry_out("echo 3 > a", task="u", order_id="r.u.1") for _ in range(2)]
    assert (tries[-1].outcome, tries[-1].paths) == ("candidate", ("a",)), tries[-1].detail
    assert mirror.stat().st_ino != before


def test_equal_work_on_another_host_is_an_equal_commit(tmp_path: Path, host: Host) -> None:
    """The hub has lost the first one."""
    first = host.carry_out("echo 2 > a")
    git(host.hub, "update-ref", "-d", "refs/forgepool/r/orders/t/1")
    elsewhere = host.settings.model_copy(update={"cache": tmp_path / "other", "host": "there"})
    second = carry_out(host.order("echo 2 > a"), elsewhere, stop=lambda: False)
    assert (second.commit, second.host) == (first.commit, "there")


def test_nothing_of_one_order_is_there_for_the_next(host: Host) -> None:
    host.carry_out("echo 2 > a && touch ignored.o left && echo '*.o' > .git/info/exclude 2>/dev/null; true")
    done = host.carry_out(
        "test ! -e left && test ! -e ignored.o && grep -q 1 a && echo 5 > b", task="u", order_id="r.u.1"
    )
    assert (done.outcome, done.paths) == ("candidate", ("b",)), done.detail


def test_a_host_that_this_machines_person_denies_is_not_reached(host: Host, tmp_path: Path) -> None:
    """The plan comes from elsewhere. It is no task's failure, and the person of this machine has to settle it."""
    rule = "{match: {network: evil.example.org}, decision: deny, reason: not from here}"
    (tmp_path / "policy.yaml").write_text(f"version: 1\nrules: [{rule}]\n")
    host.settings = host.settings.model_copy(update={"policy": tmp_path / "policy.yaml"})
    done = host.carry_out("echo 2 > a", network=("evil.example.org",))
    assert done.outcome == "infrastructure" and "not from here" in done.detail
    assert host.carry_out("echo 2 > a", network=("good.example.org",)).outcome == "candidate"
