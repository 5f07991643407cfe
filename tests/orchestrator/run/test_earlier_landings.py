"""Earlier landings are read only from the target's own history."""

import subprocess
from pathlib import Path

import pytest
from plans import course, task

from forgepool.orchestrator.plan.document import Task
from forgepool.orchestrator.run.recovery import find_already_there, work_of
from forgepool.workers.schema.orders import Asset, CliAgent, CommandAgent
from forgepool.worktrees.commits.candidate import WORK
from forgepool.worktrees.hub.mirror import Mirror, open_mirror

PLAN = course(task("a"), task("b")).plan


class Hub:
    """A hub on which runs have landed tasks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "hub"
        self.folder.mkdir()
        self.git("init", "-q", "-b", "main")
        self.git("commit", "-q", "--allow-empty", "-m", "first")
        self.mirror: Mirror = open_mirror(str(self.folder / ".git"), folder / "cache")

    def git(self, *argv: str) -> str:
        who = ("-c", "user.name=P", "-c", "user.email=p@example.org")
        return subprocess.run(
            ["git", *who, *argv], cwd=self.folder, check=True, capture_output=True, text=True
        ).stdout.strip()

    def land(self, one: Task, run: str = "p-1", *, plan: str = "p") -> str:
        """Land a task as a merge of one commit, which is how a landing usually looks."""
        self.git("checkout", "-q", "-b", f"work-{run}-{one.id}")
        (self.folder / f"{one.id}-{run}").write_text("made\n")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", one.title)
        self.git("checkout", "-q", "main")
        message = f"{one.title}\n\nForgepool-Run: {run}\n{WORK}: {work_of(PLAN.model_copy(update={'name': plan}), one)}"
        self.git("merge", "-q", "--no-ff", "-m", message, f"work-{run}-{one.id}")
        return self.tip

    def commit(self, message: str, **files: str) -> None:
        for name, text in files.items():
            (self.folder / name).write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    @property
    def tip(self) -> str:
        return self.git("rev-parse", "main")

    def there(self) -> list[tuple[str, str, str]]:
        self.mirror.fetch()
        found = find_already_there(self.mirror, self.tip, PLAN)
        return [(one.task, one.commit, one.by_run) for one in found]


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    return Hub(tmp_path)


def test_what_a_run_of_the_plan_has_landed_is_there(hub: Hub) -> None:
    assert hub.there() == []
    commit = hub.land(PLAN.tasks[0])
    hub.git("commit", "-q", "--allow-empty", "-m", "somebody's own")
    assert hub.there() == [("a", commit, "p-1")]


def test_other_work_another_plans_or_none_in_this_history_is_not_there(hub: Hub) -> None:
    before = hub.tip
    hub.land(task("a", agent=CommandAgent(run="else")))
    hub.land(PLAN.tasks[1], plan="other")
    assert hub.there() == []
    hub.land(PLAN.tasks[0], "p-3")
    hub.git("reset", "-q", "--hard", before)
    assert hub.there() == []


def test_what_was_reverted_is_not_there_until_it_is_landed_again(hub: Hub) -> None:
    landing = hub.land(PLAN.tasks[0])
    hub.git("revert", "--no-edit", "-m", "1", landing)
    assert hub.there() == []
    again = hub.land(PLAN.tasks[0], "p-2")
    assert hub.there() == [("a", again, "p-2")]
    work = hub.git("rev-parse", f"{again}^2")
    hub.git("revert", "--no-edit", work)
    assert hub.there() == [], "the commit that the landing brought in was reverted"
    hub.git("revert", "--no-edit", "HEAD")
    assert hub.there() == [("a", again, "p-2")], "and the revert was reverted"


def test_a_branch_that_was_squashed_names_all_that_landed_on_it(hub: Hub) -> None:
    lines = "".join(f"{WORK}: {work_of(PLAN, one)}\n" for one in PLAN.tasks)
    hub.commit(f"Squashed\n\nForgepool-Run: p-1\n{lines}", squashed="made\n")
    assert [one for one, _, _ in hub.there()] == ["a", "b"]


def test_a_message_that_names_work_proves_nothing_where_its_commit_changes_nothing(hub: Hub) -> None:
    hub.git("commit", "-q", "--allow-empty", "-m", f"Nothing\n\n{WORK}: {work_of(PLAN, PLAN.tasks[0])}")
    assert hub.there() == []


def test_what_was_undone_in_words_that_name_no_commit_is_not_there(hub: Hub) -> None:
    hub.land(PLAN.tasks[0])
    hub.git("rm", "-q", "a-p-1")
    hub.git("commit", "-q", "-m", "Reverts #12")
    assert hub.there() == []


def test_what_landed_on_a_branch_is_there_with_its_merge_and_gone_with_the_merges_revert(hub: Hub) -> None:
    landing = hub.land(PLAN.tasks[0])
    hub.git("branch", "integ")
    hub.git("reset", "-q", "--hard", "HEAD^1")
    hub.commit("somebody's own", own="one\n")
    hub.git("merge", "-q", "--no-ff", "-m", "all of integ", "integ")
    assert hub.there() == [("a", landing, "p-1")]
    hub.git("revert", "--no-edit", "-m", "1", "HEAD")
    assert hub.there() == []
    hub.commit("another file in its place", **{"a-p-1": "other\n"})
    assert hub.there() == [], "the merge that brought it in was reverted"


def test_a_merge_that_took_nothing_of_its_branch_brings_no_landing(hub: Hub) -> None:
    hub.land(PLAN.tasks[0])
    hub.git("branch", "integ")
    hub.git("reset", "-q", "--hard", "HEAD^1")
    hub.commit("somebody's own", own="one\n")
    hub.git("merge", "-q", "-s", "ours", "-m", "nothing of integ", "integ")
    assert hub.there() == []


def test_what_later_commits_have_changed_further_is_there(hub: Hub) -> None:
    landing = hub.land(PLAN.tasks[0])
    hub.commit("more", **{"a-p-1": "made\nand more\n"})
    assert hub.there() == [("a", landing, "p-1")]


def test_of_two_landings_the_latest_is_told(hub: Hub) -> None:
    hub.land(PLAN.tasks[0])
    latest = hub.land(PLAN.tasks[0], "p-2")
    assert hub.there() == [("a", latest, "p-2")]


def test_a_history_that_begins_with_the_words_of_a_landing_has_none(hub: Hub) -> None:
    hub.git("checkout", "-q", "--orphan", "other")
    hub.commit(f"First\n\n{WORK}: {work_of(PLAN, PLAN.tasks[0])}", one="1\n")
    hub.git("branch", "-q", "-M", "other", "main")
    assert hub.there() == []


def test_a_revert_of_a_commit_that_is_not_here_takes_nothing_back(hub: Hub) -> None:
    landing = hub.land(PLAN.tasks[0])
    hub.commit(f"Undo\n\nThis reverts commit {'1' * 40}.", own="one\n")
    assert hub.there() == [("a", landing, "p-1")]


def test_work_that_uses_assets_is_other_work_when_an_asset_changes() -> None:
    uses = task("a", agent=CommandAgent(run='sh "$FORGEPOOL_ASSETS/a.sh"'))
    first, second = (PLAN.model_copy(update={"assets": (Asset(path="a.sh", sha256=one),)}) for one in "12")
    assert work_of(first, uses) != work_of(second, uses)
    assert work_of(first, task("a")) == work_of(second, task("a")) == work_of(PLAN, task("a"))


def test_work_is_what_is_asked_for_and_not_who_does_it_when_or_with_what() -> None:
    mine = task("a", agent=CliAgent(program="claude"))
    for same in ({"agent": CliAgent(program="claude", model="other")}, {"priority": 4}, {"attempts": 9}):
        assert work_of(PLAN, task("a", **({"agent": CliAgent(program="claude")} | same))) == work_of(PLAN, mine)
    for other in ({"title": "b"}, {"description": "b"}, {"files": ["b"]}, {"acceptance": ("b",)}, {"env": {"B": "b"}}):
        changed = task("a", **({"agent": CliAgent(program="claude")} | other))
        assert work_of(PLAN, changed) != work_of(PLAN, mine)
    assert work_of(PLAN.model_copy(update={"name": "q"}), mine) != work_of(PLAN, mine)
