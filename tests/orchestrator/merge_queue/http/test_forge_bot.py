"""The bot between a queue and a forge: what it submits, what it reports once, and what a restart does not change."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from forge_server import PROJECT, REPOSITORY, TOKEN, Fault, ForgeServer, merge_request, pull
from kept_gate import KeptGate, git
from pydantic import SecretStr

from forgepool.orchestrator.journal import inbox
from forgepool.orchestrator.merge_queue.bot.rounds import Bot
from forgepool.orchestrator.merge_queue.bot.service import Connected, Connection, News, bot_of, connect_forge, working
from forgepool.orchestrator.merge_queue.forges.protocol import ForgeAway
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.schema.settings import Settings

SETTINGS = Settings(github_token=SecretStr(TOKEN), gitlab_token=SecretStr(TOKEN))


@dataclass
class Watched:
    """A bot, its queue and its forge."""

    gate: KeptGate
    server: ForgeServer
    commits: str | None = None
    kind: str = "github"
    told: list[str] = field(default_factory=list)
    found: list[Connected] = field(default_factory=list)

    def connected(self) -> Connected:
        name, path = (REPOSITORY, "") if self.kind == "github" else (PROJECT, "/api/v4")
        wanted = Connection(forge=f"{self.kind}:{name}", url=self.server.url + path, commits=self.commits)
        stop = threading.Event()
        stop.set()  # No time passes.
        self.found.append(connect_forge(wanted, SETTINGS, stop))
        return self.found[-1]

    def bot(self) -> Bot:
        """Return a bot as after a start: it knows only what its file says."""
        return bot_of(self.connected(), self.gate.view(), self.gate.post.hub.mirror, "main", self.told.append)

    def open(self, number: int, branch: str, **parts: object) -> str:
        """Open a change of that branch; the hub has its ref, as where hub and forge are one repository."""
        head = self.gate.head(branch)
        git(self.gate.hub, "update-ref", f"refs/pull/{number}/head", head)
        self.server.pulls[number] = pull(number, head, **parts)
        return head

    def statuses(self) -> list[tuple[str, str]]:
        sent = [one for one in self.server.seen if one.method == "POST" and "/statuses/" in one.path]
        return [(one.body["state"], one.body["description"]) for one in sent]

    def comments(self) -> list[str]:
        return [one.body["body"] for one in self.server.seen if one.path.endswith(("/comments", "/notes"))]


@pytest.fixture
def watched(gate: KeptGate, server: ForgeServer) -> Iterator[Watched]:
    made = Watched(gate, server)
    yield made
    for one in made.found:
        one.api.__exit__()
    assert server.lost == []


def test_a_labelled_change_enters_lands_and_is_told_so_once(watched: Watched) -> None:
    """The bot is restarted between every two rounds."""
    gate = watched.gate
    head = watched.open(7, "one", author="ada")
    watched.open(8, "two", labels=["other"])
    watched.bot().round()
    assert list(gate.refs()) == ["refs/forgepool/for/main/pr-7"]
    watched.bot().round()
    assert watched.statuses() == [("pending", "queued")]
    gate.turn()
    assert (gate.state.submitted["pr-7"].commit, gate.state.submitted["pr-7"].by) == (head, "ada")
    for _ in range(2):
        watched.bot().round()
    gate.land("pr-7")
    for _ in range(2):
        watched.bot().round()
    assert watched.statuses()[1:] == [("pending", "it is queued"), ("success", f"landed as {head[:12]}")]
    assert watched.comments() == [f"Landed as {head}."]
    assert gate.refs() == {} and watched.told == []


def test_a_returned_change_is_explained_once_and_quoted_without_calling_anybody(watched: Watched) -> None:
    watched.open(7, "one")
    watched.bot().round()
    watched.gate.turn()
    watched.gate.give_back("pr-7", "test is red: ``` @everyone")
    for _ in range(2):
        watched.bot().round()
    assert watched.statuses()[-1] == ("failure", "test is red: ``` @everyone")
    (comment,) = watched.comments()
    assert "\n````text\n" in comment and comment.endswith("\n````")
    assert "'pr-7'" in comment


def test_another_commit_takes_the_place_of_the_first_without_being_withdrawn_by_it(watched: Watched) -> None:
    """A withdrawal of the first could reach the queue after the second has its name."""
    gate = watched.gate
    watched.open(7, "one")
    watched.bot().round()
    gate.turn()
    head = watched.open(7, "two")
    watched.bot().round()
    assert list(inbox.waiting(gate.folder)) == []
    gate.turn()
    watched.bot().round()
    assert gate.state.submitted["pr-7"].commit == head and gate.state.tasks["pr-7"].phase == "queued"
    assert gate.state.submitted["pr-7"].revision == 2


def test_what_loses_its_label_leaves_and_comes_back_with_it(watched: Watched) -> None:
    gate = watched.gate
    watched.open(7, "one")
    watched.bot().round()
    gate.turn()
    watched.server.pulls[7]["labels"] = []
    for _ in range(2):
        watched.bot().round()
    assert [one.do for _, one in inbox.waiting(gate.folder)] == ["cancel"]
    watched.open(7, "one")
    watched.bot().round()
    assert gate.refs() == {}, "the gate has yet to hear that it is withdrawn"
    gate.turn()
    assert gate.state.tasks["pr-7"].phase == "cancelled"
    watched.bot().round()
    gate.turn()
    assert gate.state.tasks["pr-7"].phase == "queued"


def test_what_a_person_withdrew_does_not_come_back_by_itself(watched: Watched) -> None:
    gate = watched.gate
    watched.open(7, "one")
    watched.bot().round()
    gate.turn()
    inbox.leave(gate.folder, inbox.PersonRequest(do="cancel", task="pr-7"))
    gate.turn()
    watched.bot().round()
    assert gate.refs() == {} and watched.statuses()[-1][0] == "failure"


def test_owners_named_by_the_target_approve_before_it_enters(watched: Watched) -> None:
    """The target's file counts. The change's own file would let it in."""
    gate = watched.gate
    head = watched.open(7, "team/x")
    for _ in range(2):
        watched.bot().round()
    assert gate.refs() == {}
    assert watched.statuses() == [("pending", "docs/x.txt needs an approval by @grace")]
    review = {"state": "APPROVED", "author_association": "MEMBER", "commit_id": head, "user": {"login": "grace"}}
    watched.server.reviews[7] = [review]
    watched.bot().round()
    assert list(gate.refs()) == ["refs/forgepool/for/main/pr-7"]


def test_what_depends_on_another_waits_until_that_is_in_the_gate(watched: Watched) -> None:
    gate = watched.gate
    watched.open(8, "two", body="Depends-On: #7")
    watched.bot().round()
    assert gate.refs() == {} and watched.statuses() == [("pending", "it waits for #7, which is not in the queue")]
    watched.open(7, "one")
    watched.bot().round()
    gate.turn()
    watched.bot().round()
    gate.turn()
    assert gate.state.submitted["pr-8"].needs == ("pr-7",)
    assert watched.server.lost == ["GET /repos/octo/shop/pulls/7"], "asked for before it was there, and never again"
    watched.server.lost.clear()


def test_commits_that_the_hub_lacks_are_fetched_from_the_forge(watched: Watched, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(watched.gate.hub), "forge.git")
    watched.commits = str(tmp_path / "forge.git")
    head = git(tmp_path / "forge.git", "commit-tree", "-p", "main", "-m", "From a fork", "two^{tree}")
    git(tmp_path / "forge.git", "update-ref", "refs/pull/9/head", head)
    watched.server.pulls[9] = pull(9, head)
    watched.server.pulls[7] = pull(7, "0" * 40)  # its ref is nowhere
    watched.bot().round()
    watched.gate.turn()
    assert watched.gate.state.submitted["pr-9"].commit == head
    assert "pr-7" not in watched.gate.state.submitted and len(watched.told) == 1


def test_a_change_that_has_landed_already_does_not_enter_for_ever(watched: Watched) -> None:
    watched.open(7, "main")
    for _ in range(2):
        watched.bot().round()
    ((state, why),) = watched.statuses()
    assert state == "failure" and why.startswith("main has ") and watched.gate.refs() == {}


def test_a_new_commit_on_a_change_that_landed_gets_a_name_of_its_own(watched: Watched) -> None:
    gate = watched.gate
    watched.open(7, "one")
    watched.bot().round()
    gate.turn()
    gate.land("pr-7")
    watched.bot().round()
    watched.open(7, "two")
    watched.bot().round()
    gate.turn()
    assert gate.state.tasks["pr-7-2"].phase == "queued" and gate.state.tasks["pr-7"].phase == "landed"


def test_a_comment_that_may_have_arrived_is_not_sent_again_and_one_that_did_not_is(watched: Watched) -> None:
    watched.open(7, "one")
    watched.bot().round()
    watched.gate.turn()
    watched.gate.give_back("pr-7", "test is red")
    limited = Fault(429, {"message": "slow down"}, {"retry-after": "200"})
    watched.server.faults = [None, None, limited]
    with pytest.raises(ForgeAway):
        watched.bot().round()
    watched.server.faults = [None, None, Fault(502, acted=True)]
    for _ in range(2):
        watched.bot().round()
    assert len(watched.comments()) == 2, "one was answered without a look, one was taken"
    assert watched.statuses()[-1][0] == "failure"


def test_a_forge_in_trouble_does_not_end_the_bot(watched: Watched) -> None:
    """The failure is reported once, however long it lasts. Then the changes are submitted."""
    watched.open(7, "one")
    watched.server.faults = [Fault(401, {"message": "Bad credentials"})] * 2
    heard: list[str] = []
    stop = threading.Event()
    news = News(heard.append)
    bot = replace(watched.bot(), tell=news.hear)
    with working(bot, watched.found[-1].api, news, 0.01, stop):
        for _ in range(3000):
            if watched.gate.refs():
                break
            stop.wait(0.01)
    assert len(heard) == 1 and heard[0].startswith("GitHub rejects the token: Bad credentials")


def test_gitlab_is_told_in_its_own_words(watched: Watched) -> None:
    watched.kind = "gitlab"
    head = watched.gate.head("one")
    git(watched.gate.hub, "update-ref", "refs/merge-requests/7/head", head)
    watched.server.requests[7] = merge_request(7, head)
    watched.bot().round()
    watched.gate.turn()
    watched.bot().round()
    watched.gate.land("mr-7")
    watched.bot().round()
    assert watched.server.statuses[head] == {"forgepool/gate": "success"}
    assert watched.comments() == [f"Landed as {head}."]


@pytest.mark.parametrize(
    ("forge", "why"),
    [
        ("gitea:a/b", "is not a forge; use github:OWNER/REPO or gitlab:GROUP/PROJECT"),
        ("github:shop", "use OWNER/NAME"),
        ("gitlab:shop", "use GROUP/NAME"),
    ],
)
def test_what_is_no_forge_is_refused_before_the_gate_begins(forge: str, why: str) -> None:
    with pytest.raises(CannotRun, match=why):
        connect_forge(Connection(forge=forge), SETTINGS, threading.Event())
    with pytest.raises(CannotRun, match="FORGEPOOL_GITHUB_TOKEN"):
        connect_forge(Connection(forge="github:octo/shop"), Settings(github_token=None), threading.Event())
