"""Decides whether a change that is ready at the forge may enter the queue now, and under which name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from forgepool.orchestrator.decisions.queue.intake import take_in
from forgepool.orchestrator.decisions.queue.submissions import Submission
from forgepool.orchestrator.journal.events import EntryRefused
from forgepool.orchestrator.merge_queue.bot.intake import Given, StatusReport
from forgepool.orchestrator.merge_queue.forges.codeowners import PLACES, Codeowners, Dialect, Missing, read_codeowners
from forgepool.orchestrator.merge_queue.forges.protocol import Forge, ForgeRefused, PullRequest
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TERMINAL
from forgepool.worktrees.commits.changes import FileTooLarge, changes, list_touched_paths, read_file
from forgepool.worktrees.git.git import CommitId
from forgepool.worktrees.git.history import is_ancestor
from forgepool.worktrees.hub.mirror import Mirror


def wanting(forge: Forge, change: PullRequest, paths: Iterable[str], owners: Codeowners) -> tuple[Missing, ...]:
    """
    Return the approvals that CODEOWNERS still requires; the forge is only asked if some path has an owner.

    `paths` are those that differ from the target, both paths of a rename; `owners` is the target's file.

    Raises:
        ForgeRefused, ForgeAway: the approvals are unknown.
    """
    touched = tuple(paths)
    asked = owners.owners_wanted(touched)
    if not asked:
        return ()
    approved = forge.find_approvers(change)
    if not approved:
        return owners.missing_approvals(touched, ())
    members = {owner: found for owner in asked if (found := forge.members_of(owner)) is not None}
    return owners.missing_approvals(touched, approved, members)


@dataclass(frozen=True, slots=True, kw_only=True)
class Enters:
    name: str
    needs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stays:
    """The change stays out, and the forge is told why."""

    report: StatusReport


@dataclass(frozen=True, slots=True)
class Later:
    """Nothing can be decided in this round."""


Admission: TypeAlias = Enters | Stays | Later


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """
    Decides admissions for one forge and one hub.

    Raises, from `admission`:
        ForgeRefused, ForgeAway: the forge did not answer what is needed, so the change stays out.
        GitFailed: its commit or the hub is unavailable.
    """

    forge: Forge
    dialect: Dialect
    mirror: Mirror
    commits: str
    """The URL that its commits are fetched from if the hub lacks them."""

    def admission(self, state: RunState, given: Mapping[int, Given], change: PullRequest) -> Admission:
        name = self.name(state, given, change.number)
        task = state.tasks.get(name)
        if task is not None and (task.phase == "landing" or task.landing_in_doubt):
            return Later()
        needs = self._needs(state, given, change)
        if isinstance(needs, str):
            return Stays(StatusReport(change.head, "pending", needs))
        if not self._fetch(change):
            return Later()
        why = self._foresee_refusal(state, name, change, needs)
        if why is not None:
            return Stays(StatusReport(change.head, "failure", why))
        why = self._missing_approvals(state, change)
        if why is not None:
            return Stays(StatusReport(change.head, "pending", why))
        return Enters(name=name, needs=needs)

    def name(self, state: RunState, given: Mapping[int, Given], number: int) -> str:
        """Return the entry name of a change; a new one after an earlier entry landed."""
        first = f"{'pr' if self.dialect == 'github' else 'mr'}-{number}"
        name = given[number].name if number in given else first
        count = 1
        while (task := state.tasks.get(name)) is not None and task.phase == "landed":
            count += 1
            name = f"{first}-{count}"
        return name

    def contains(self, commit: str, other: str) -> bool:
        """Tell whether `other` is in the commit's history, as far as known here."""
        return is_ancestor(self.mirror.git, CommitId(other), CommitId(commit), missing_is_no=True)

    def _needs(self, state: RunState, given: Mapping[int, Given], change: PullRequest) -> tuple[str, ...] | str:
        """Return the entries that a change depends on; a sentence where one is not queued."""
        found: list[str] = []
        for number in change.depends:
            one = given.get(number)
            task = state.tasks.get(one.name) if one is not None else None
            if one is None or task is None:
                if not self._has_landed(state, number):
                    return f"it waits for #{number}, which is not in the queue"
            elif task.phase in TERMINAL and task.phase not in ("landed", "needs_human"):
                return f"it waits for #{number}, which the queue has returned"
            else:
                found.append(one.name)
        return tuple(found)

    def _has_landed(self, state: RunState, number: int) -> bool:
        try:
            return self.contains(state.tip, self.forge.head_of(number))
        except ForgeRefused as refused:
            if refused.status in (0, 404):
                return False
            raise

    def _fetch(self, change: PullRequest) -> bool:
        """Fetch the change's head from the hub, else from the forge; False if its ref has moved on."""
        head = CommitId(change.head)
        if self.mirror.has(head):
            return True
        at_hub = self.mirror.hub_refs(change.ref).get(change.ref) == head
        source = self.mirror if at_hub else replace(self.mirror, hub=self.commits, push_option=None)
        source.fetch(f"+{change.ref}:refs/hub/changes/{change.ref.removeprefix('refs/')}")
        return self.mirror.has(head)

    def _foresee_refusal(self, state: RunState, name: str, change: PullRequest, needs: tuple[str, ...]) -> str | None:
        head = CommitId(change.head)
        one = Submission(ref="", at=head, name=name, commit=head, said={"needs": needs} if needs else {})
        events = take_in(state, one, contained=self.contains(state.tip, head))
        return next((event.why for event in events if isinstance(event, EntryRefused)), None)

    def _missing_approvals(self, state: RunState, change: PullRequest) -> str | None:
        """Return which approvals are missing by the target's CODEOWNERS, not by the change's."""
        tip, head = CommitId(state.tip), CommitId(change.head)
        self.mirror.ensure(tip, refs=(f"refs/heads/{state.target}",))
        try:
            owners = self._owners(tip)
        except FileTooLarge as large:
            return f"CODEOWNERS cannot be read, so the required approvals are unknown: {large}"
        if owners is None:
            return None
        base = self.mirror.git.run("merge-base", tip, head, ok=(0, 1)).text or tip
        paths = list_touched_paths(changes(self.mirror.git, CommitId(base), head))
        missing = wanting(self.forge, change, paths, owners)
        return "; ".join(map(str, missing)) or None

    def _owners(self, tip: CommitId) -> Codeowners | None:
        for place in PLACES[self.dialect]:
            text = read_file(self.mirror.git, tip, place)
            if text is not None:
                return read_codeowners(text.decode(errors="replace"), self.dialect)
        return None
