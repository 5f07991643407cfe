"""
What composition asks of files that commands make: which they are, and what is made of a merged tree.

Where the entry has changed something that the files are made of, and the tip has brought in something that counts as
well, neither's files are those of the merged tree: the command is run on it, from the tip's version of the files, or
what it made of the same before is found. Where only the entry has brought something, its own files stand.

Why from the tip's version, also where both merge line by line: commands leave as it is what need not change, so that
what an entry has written into such a file by hand would come out as made by the command.

Why not where the entry has changed the files alone, and nothing that they are made of: its version says something (a
newer release of what is locked, say) that the command would not find out. It merges like any file, or is in conflict.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NoReturn

from forgepool.supervisor.checks.results.failures import describe_failure, missing_program, untold
from forgepool.supervisor.checks.results.touched import covers
from forgepool.supervisor.checks.running import CheckPlace
from forgepool.supervisor.checks.runs import Untold
from forgepool.supervisor.gate_file.document import NotConfigured, RegenerateDefinition
from forgepool.supervisor.messages import CheckFailure, TrainRequest
from forgepool.supervisor.regeneration.kept import KeptFiles
from forgepool.supervisor.regeneration.keys import counts, is_made, is_source, key_of, make_files
from forgepool.supervisor.regeneration.network import network_trouble
from forgepool.supervisor.regeneration.running import as_check, make
from forgepool.supervisor.scans.paths.commands import run_by
from forgepool.worktrees.commits.candidate import differing, files_of, with_files
from forgepool.worktrees.commits.compose import Made, Merged, Unmade, tree_of
from forgepool.worktrees.git.git import CommitId, Git, TreeId
from forgepool.worktrees.hub.mirror import Mirror

_SLOW = ("timeout", "idle")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandFailed(Unmade):
    """The command did not make them of the merged tree, though it does of the target's."""

    named: str
    """The files, as a person calls them."""
    failure: CheckFailure
    commands: tuple[str, ...]
    put_back: tuple[str, ...]
    """Those of which the entry had a version of its own: the tip's was the start for making them."""

    @property
    def said(self) -> str:
        """What the command did, to be read behind the names of the two that do not go together."""
        what = f"the set-up of the command that makes {self.named}" if self.failure.setup else ""
        what = what or f"the command that makes {self.named}"
        return f"{what} {self.failure.reason or describe_failure(self.failure, ' on both')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MakerChanged(Unmade):
    """The entry changes what the command runs: nobody has looked at that yet, and it is not run."""

    named: str

    @property
    def said(self) -> str:
        return f"the command that makes {self.named} runs these, so they change only with a person's leave"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotKept(Unmade):
    """Nobody has kept what the command made, and who asks runs none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaking:
    """The files of one target, for one request; `worktrees.commits.compose.Regeneration`."""

    definitions: Sequence[RegenerateDefinition]
    kept: KeptFiles
    base: CommitId
    """The target's tip."""
    place: CheckPlace | None
    """Where commands are run; None runs none, and knows only what is kept."""
    grants: tuple[str, ...] = ()
    """What a person lets one of the entries change."""
    doubt: Callable[[], None] = lambda: None
    """Called when a command failed once on the tip itself, and is to be run again."""

    def is_made(self, path: str) -> bool:
        return any(is_made(one, path) for one in self.definitions)

    def remade(self, git: Git, merged: Merged) -> Made | Unmade | None:
        """
        Raises:
            Untold: the command said nothing of the tree, through nobody's doing.
            NotConfigured: it does not work on the target itself.
            CannotKeep, GitFailed, MissingCommit: of the hub.
        """
        if lost := _lost(self.definitions, git, merged):
            return Unmade(paths=lost)
        tree, paths, put_back, commands = merged.tree, set[str](), {*merged.conflicts}, list[str]()
        for at, one in enumerate(self.definitions, start=1):
            if not _is_due(one, git, merged, tree):
                continue
            start, back = _started(one, git, tree, merged.tip)
            made = self._made(one, merged, start, (*put_back, *back), f"{merged.entry[:12]}-{at}")
            if isinstance(made, Unmade):
                return made
            tree, files = _put(one, git, start, made)
            paths, put_back = paths | files, put_back.union(back)
            commands += commands_of(one)
        if not commands:
            return None
        if gone := files_of(git, merged.tree).keys() - files_of(git, tree).keys():
            lost = tuple(sorted(path for path in gone if not self.is_made(path)))
            if lost:
                # What was made wants their place, or a folder of their name.
                return Unmade(paths=lost)
        named = tuple(sorted(paths))
        return Made(tree=tree, paths=named, put_back=tuple(sorted(put_back)), commands=tuple(commands))

    def find_confirmed(self, git: Git, on: CommitId, tree: TreeId, paths: Collection[str]) -> frozenset[str]:
        """
        Of these paths, changed on `on` by who stands as submitted, those that the command makes just so, begun with the
        version that was there before.

        Raises:
            Untold, CannotKeep, GitFailed, MissingCommit: as `remade`.
        """
        found = set[str]()
        for at, one in enumerate(self.definitions, start=1):
            mine = {path for path in paths if is_made(one, path)}
            if mine and self.place is not None and not self._changed_makers(one, git, tree):
                start, _ = _started(one, git, tree, on)
                key = key_of(one, start)
                made = self.kept.find(key) or self._twice(one, on, start, key, f"made-{tree[:12]}-{at}-confirmed")
                files, here = make_files(one, git, made) if made else {}, make_files(one, git, tree)
                found |= {path for path in mine if made and files.get(path) == here.get(path)}
        return frozenset(found)

    def _twice(self, one: RegenerateDefinition, on: CommitId, start: TreeId, key: str, label: str) -> CommitId | None:
        """A command that fails once may not have been the entry's doing."""
        assert self.place is not None
        for word in (label, f"{label}-again"):
            made = _told(make(one, start, on, self.place, label=word, base=self.base))
            if not isinstance(made, CheckFailure):
                return self.kept.keep(key, made, one.named)
        return None

    def _changed_makers(self, one: RegenerateDefinition, git: Git, tree: TreeId) -> tuple[str, ...]:
        """What the command runs, or is told by what to run, and who is in the spec changes without a person's leave."""
        changed = [path for path in differing(git, self.base, tree) if not covers(self.grants, path)]
        if not changed:
            return ()
        makers = run_by(git, self.base, frozenset(files_of(git, self.base)), [as_check(one)])
        return tuple(path for path in changed if path in makers)

    def _made(
        self, one: RegenerateDefinition, merged: Merged, start: TreeId, put_back: Collection[str], label: str
    ) -> CommitId | Unmade:
        """A commit of the files alone, found or made."""
        git = self.kept.mirror.git
        key = key_of(one, start)
        if (found := self.kept.find(key)) is not None:
            return found
        if self.place is None:
            return NotKept(paths=one.paths)
        if makers := self._changed_makers(one, git, start):
            return MakerChanged(paths=makers, named=one.named)
        answer = self._run(one, merged, start, self.place, label)
        if isinstance(answer, CheckFailure):
            back = tuple(sorted(put_back))
            brought = tuple(path for path in differing(git, merged.entry, merged.tree) if counts(one, path))
            return CommandFailed(
                paths=brought, named=one.named, failure=answer, commands=commands_of(one), put_back=back
            )
        return self.kept.keep(key, answer, one.named)

    def _run(
        self, one: RegenerateDefinition, merged: Merged, tree: TreeId, place: CheckPlace, label: str
    ) -> TreeId | CheckFailure:
        """
        Behind others one failure is enough: it decides about nobody. On the tip itself it must come twice, and must not
        come on the tip alone.
        """
        made = _told(make(one, tree, merged.tip, place, label=f"made-{label}", base=self.base))
        if not isinstance(made, CheckFailure):
            return made
        if merged.tip != self.base:
            self._refuse_unreached(one, made, place, label)
            return made
        self.doubt()
        again = _told(make(one, tree, merged.tip, place, label=f"made-{label}-again", base=None))
        if isinstance(again, CheckFailure):
            self._refuse_unreached(one, again, place, label)
            if (alone := self._alone(one, place, label)) and (twice := self._alone(one, place, f"{label}-again")):
                _refuse_command(one, twice if twice.how == alone.how else alone)
        return again

    def _alone(self, one: RegenerateDefinition, place: CheckPlace, label: str) -> CheckFailure | None:
        """How it fails on the target itself."""
        on_tip = tree_of(place.mirror.git, self.base)
        alone = _told(make(one, on_tip, self.base, place, label=f"made-{label}-base", base=None))
        return alone if isinstance(alone, CheckFailure) else None

    def _refuse_unreached(
        self, one: RegenerateDefinition, failure: CheckFailure, place: CheckPlace, label: str
    ) -> None:
        """
        Raises:
            Untold: it did not reach what it needs, and neither does it on the target now.
        """
        trouble = network_trouble(failure.log_tail) if one.network else None
        if trouble is not None and self._alone(one, place, f"{label}-reach") is not None:
            raise Untold(f"the command that makes {one.named} did not reach what it needs: {trouble}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrun:
    """For who only looks, and lets nothing in: what would be made anew stays as it was merged."""

    definitions: Sequence[RegenerateDefinition]

    def is_made(self, path: str) -> bool:
        return any(is_made(one, path) for one in self.definitions)

    def remade(self, git: Git, merged: Merged) -> None:
        return None


def remaking(
    mirror: Mirror,
    request: TrainRequest,
    definitions: Sequence[RegenerateDefinition],
    place: CheckPlace | None = None,
    *,
    free: bool = False,
) -> Remaking | None:
    """
    None where the target has no such files. Without a place no command is run. `free`: people alone made the change,
    and may change what the commands run.
    """
    if not definitions:
        return None
    kept = KeptFiles(mirror=mirror, run=request.run, private=request.private)
    grants = ("**",) if free else tuple(glob for entry in request.spec for glob in entry.grants)
    return Remaking(definitions=definitions, kept=kept, base=CommitId(request.base), place=place, grants=grants)


def commands_of(one: RegenerateDefinition) -> tuple[str, ...]:
    return tuple(command for command in (one.setup, one.run) if command)


def _is_due(one: RegenerateDefinition, git: Git, merged: Merged, tree: TreeId) -> bool:
    """Has the entry brought in what they are made of, and the tip anything that counts?"""
    if not any(is_source(one, path) for path in differing(git, merged.tip, tree)):
        return False
    return any(counts(one, path) for path in differing(git, merged.entry, tree))


def _lost(definitions: Sequence[RegenerateDefinition], git: Git, merged: Merged) -> tuple[str, ...]:
    """Files with two versions, of which the entry has changed nothing that they are made of."""
    lost: list[str] = []
    for one in definitions:
        mine = [path for path in merged.conflicts if is_made(one, path)]
        if mine and not any(is_source(one, path) for path in differing(git, merged.tip, merged.tree)):
            fork = CommitId(git.text("merge-base", merged.tip, merged.entry))
            changed = differing(git, fork, merged.entry)
            # Where it has changed the same as others before it, what is made of that is there already.
            lost += [] if any(is_source(one, path) for path in changed) else mine
    return tuple(sorted(lost))


def _started(one: RegenerateDefinition, git: Git, tree: TreeId, on: CommitId) -> tuple[TreeId, tuple[str, ...]]:
    """The tree with the files that were there before, and those of which it had others."""
    back = tuple(path for path in differing(git, on, tree) if is_made(one, path))
    return with_files(git, tree, back, files_of(git, on, back)) if back else tree, back


def _put(one: RegenerateDefinition, git: Git, start: TreeId, made: CommitId) -> tuple[TreeId, set[str]]:
    """The tree with what was made in it, whatever else lies in what is kept; and the files that are made."""
    before, after = make_files(one, git, start), make_files(one, git, made)
    changed = [path for path in {**before, **after} if before.get(path) != after.get(path)]
    return with_files(git, start, changed, after) if changed else start, {*before, *after}


def _told(made: TreeId | CheckFailure) -> TreeId | CheckFailure:
    """
    Raises:
        Untold: it says nothing of the tree.
    """
    if isinstance(made, CheckFailure) and (nothing := untold(made)) is not None:
        raise Untold(nothing)
    return made


def _refuse_command(one: RegenerateDefinition, failure: CheckFailure) -> NoReturn:
    where = " on the target itself"
    if failure.how in _SLOW:
        raise Untold(f"the command that makes {one.named} {describe_failure(failure, where)}")
    why = (
        missing_program(failure, where)
        or f"the command that makes {one.named} {describe_failure(failure, where)}; mend it"
    )
    raise NotConfigured(why)
