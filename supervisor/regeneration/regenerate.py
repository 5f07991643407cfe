"""
Decide which generated files a merged tree needs again, and run their commands or find their kept output.

If the entry changed a source of the files, and the tip brought in something that counts as well, neither version
fits the merged tree. The command then runs on that tree, starting from the tip's version of the files, or its kept
output is used. If only the entry brought something, its own files stand.

Why start from the tip's version even where both merge line by line: commands keep what need not change, so that an
entry's handwritten lines in such a file would pass as generated.

Why not if the entry changed the files alone and none of their sources: its version may hold something that the
command would not find out, such as a newer release of a locked package. It merges or conflicts like any file.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NoReturn

from forgepool.supervisor.checks.results.failures import describe_failure, missing_program, untold
from forgepool.supervisor.checks.results.touched import covers
from forgepool.supervisor.checks.running import CheckPlace
from forgepool.supervisor.checks.runs import Untold
from forgepool.supervisor.messages.answers import CheckFailure
from forgepool.supervisor.messages.requests import TrainRequest
from forgepool.supervisor.regeneration.kept import KeptFiles, counts, is_made, is_source, key_of, make_files
from forgepool.supervisor.regeneration.running import make
from forgepool.workers.policy.gate_file.document import NotConfigured, RegenerateDefinition, as_check
from forgepool.workers.workspace.scans.protection import run_by
from forgepool.worktrees.commits.candidate import differing, files_of, with_files
from forgepool.worktrees.commits.compose import Made, Merged, Unmade, tree_of
from forgepool.worktrees.git.git import CommitId, Git, TreeId
from forgepool.worktrees.hub.mirror import Mirror

_WORDS = re.compile(
    r"\b(ENOTFOUND|ETIMEDOUT|ECONNRESET|ECONNREFUSED|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|"
    r"could not resolve host|temporary failure in name resolution|name or service not known|network is unreachable|"
    r"no route to host|connection (?:refused|reset|timed out)|operation timed out|tls handshake timeout|"
    r"(?:502 bad gateway|503 service (?:temporarily )?unavailable|504 gateway time-?out|429 too many requests))\b",
    re.IGNORECASE,
)
_SHOWN = 300


def network_trouble(tail: str) -> str | None:
    """Return the last line of an output that blames the network, or None."""
    lines = [line.strip() for line in tail.splitlines() if _WORDS.search(line)]
    return lines[-1][:_SHOWN] if lines else None


_SLOW = ("timeout", "idle")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandFailed(Unmade):
    """The command failed on the merged tree, though it works on the target's."""

    named: str
    """The files, as a person calls them."""
    failure: CheckFailure
    commands: tuple[str, ...]
    put_back: tuple[str, ...]
    """Files of the entry's own version, reset to the tip's version before the command ran."""

    @property
    def said(self) -> str:
        """The command's failure, to stand behind the names of the two entries in conflict."""
        what = f"the set-up of the command that makes {self.named}" if self.failure.setup else ""
        what = what or f"the command that makes {self.named}"
        return f"{what} {self.failure.reason or describe_failure(self.failure, ' on both')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MakerChanged(Unmade):
    """The entry changes a file that the command runs, without a permission. The command does not run."""

    named: str

    @property
    def said(self) -> str:
        return f"the command that makes {self.named} runs these, so they change only with a person's leave"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotKept(Unmade):
    """The output is not kept, and this request runs no commands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaking:
    """The generated files of one target for one request. Implements `worktrees.commits.compose.Regeneration`."""

    definitions: Sequence[RegenerateDefinition]
    kept: KeptFiles
    base: CommitId
    """The target's tip."""
    place: CheckPlace | None
    """The place to run commands in. None runs none, and only finds kept output."""
    grants: tuple[str, ...] = ()
    """Globs that a person allows one of the entries to change."""
    doubt: Callable[[], None] = lambda: None
    """Called when a command failed once on the tip itself, before it runs again."""

    def is_made(self, path: str) -> bool:
        return any(is_made(rule, path) for rule in self.definitions)

    def remade(self, git: Git, merged: Merged) -> Made | Unmade | None:
        """
        Return the merged tree with its generated files, a reason why not, or None if nothing is due.

        Raises:
            Untold: the command's failure says nothing about the tree, and no entry caused it.
            NotConfigured: the command does not work on the target itself.
            CannotKeep, GitFailed, MissingCommit: trouble with the hub.
        """
        if lost := _lost(self.definitions, git, merged):
            return Unmade(paths=lost)
        tree, paths, put_back, commands = merged.tree, set[str](), {*merged.conflicts}, list[str]()
        for at, rule in enumerate(self.definitions, start=1):
            if not _is_due(rule, git, merged, tree):
                continue
            start, back = _started(rule, git, tree, merged.tip)
            made = self._made(rule, merged, start, (*put_back, *back), f"{merged.entry[:12]}-{at}")
            if isinstance(made, Unmade):
                return made
            tree, files = _put(rule, git, start, made)
            paths, put_back = paths | files, put_back.union(back)
            commands += commands_of(rule)
        if not commands:
            return None
        if gone := files_of(git, merged.tree).keys() - files_of(git, tree).keys():
            lost = tuple(sorted(path for path in gone if not self.is_made(path)))
            if lost:
                # A generated file takes their place, or needs a folder of their name.
                return Unmade(paths=lost)
        named = tuple(sorted(paths))
        return Made(tree=tree, paths=named, put_back=tuple(sorted(put_back)), commands=tuple(commands))

    def find_confirmed(self, git: Git, on: CommitId, tree: TreeId, paths: Collection[str]) -> frozenset[str]:
        """
        Return the submitted files that the command generates in exactly this form.

        The command starts from the version before the change, and `paths` are the files changed since `on`.

        Raises:
            Untold, CannotKeep, GitFailed, MissingCommit: see `remade`.
        """
        found = set[str]()
        for at, rule in enumerate(self.definitions, start=1):
            mine = {path for path in paths if is_made(rule, path)}
            if mine and self.place is not None and not self._changed_makers(rule, git, tree):
                start, _ = _started(rule, git, tree, on)
                key = key_of(rule, start)
                made = self.kept.find(key) or self._twice(rule, on, start, key, f"made-{tree[:12]}-{at}-confirmed")
                files, here = make_files(rule, git, made) if made else {}, make_files(rule, git, tree)
                found |= {path for path in mine if made and files.get(path) == here.get(path)}
        return frozenset(found)

    def _twice(self, rule: RegenerateDefinition, on: CommitId, start: TreeId, key: str, label: str) -> CommitId | None:
        """Run the command up to two times, as a first failure may not be the entry's fault."""
        assert self.place is not None
        for word in (label, f"{label}-again"):
            made = _require_answer(make(rule, start, on, self.place, label=word, base=self.base))
            if not isinstance(made, CheckFailure):
                return self.kept.keep(key, made, rule.named)
        return None

    def _changed_makers(self, rule: RegenerateDefinition, git: Git, tree: TreeId) -> tuple[str, ...]:
        """Return the files that the command runs or reads, and that the entries change without permission."""
        changed = [path for path in differing(git, self.base, tree) if not covers(self.grants, path)]
        if not changed:
            return ()
        makers = run_by(git, self.base, frozenset(files_of(git, self.base)), [as_check(rule)])
        return tuple(path for path in changed if path in makers)

    def _made(
        self, rule: RegenerateDefinition, merged: Merged, start: TreeId, put_back: Collection[str], label: str
    ) -> CommitId | Unmade:
        """Return a commit of the generated files alone, kept or new."""
        git = self.kept.mirror.git
        key = key_of(rule, start)
        if (found := self.kept.find(key)) is not None:
            return found
        if self.place is None:
            return NotKept(paths=rule.paths)
        if makers := self._changed_makers(rule, git, start):
            return MakerChanged(paths=makers, named=rule.named)
        answer = self._run(rule, merged, start, self.place, label)
        if isinstance(answer, CheckFailure):
            back = tuple(sorted(put_back))
            brought = tuple(path for path in differing(git, merged.entry, merged.tree) if counts(rule, path))
            return CommandFailed(
                paths=brought, named=rule.named, failure=answer, commands=commands_of(rule), put_back=back
            )
        return self.kept.keep(key, answer, rule.named)

    def _run(
        self, rule: RegenerateDefinition, merged: Merged, tree: TreeId, place: CheckPlace, label: str
    ) -> TreeId | CheckFailure:
        """
        Run the command. Behind other entries one failure is enough, as it decides about no single entry.

        On the tip itself it must fail twice, and must not fail on the tip alone.
        """
        made = _require_answer(make(rule, tree, merged.tip, place, label=f"made-{label}", base=self.base))
        if not isinstance(made, CheckFailure):
            return made
        if merged.tip != self.base:
            self._refuse_unreached(rule, made, place, label)
            return made
        self.doubt()
        again = _require_answer(make(rule, tree, merged.tip, place, label=f"made-{label}-again", base=None))
        if isinstance(again, CheckFailure):
            self._refuse_unreached(rule, again, place, label)
            if (alone := self._alone(rule, place, label)) and (twice := self._alone(rule, place, f"{label}-again")):
                _refuse_command(rule, twice if twice.how == alone.how else alone)
        return again

    def _alone(self, rule: RegenerateDefinition, place: CheckPlace, label: str) -> CheckFailure | None:
        on_tip = tree_of(place.mirror.git, self.base)
        alone = _require_answer(make(rule, on_tip, self.base, place, label=f"made-{label}-base", base=None))
        return alone if isinstance(alone, CheckFailure) else None

    def _refuse_unreached(
        self, rule: RegenerateDefinition, failure: CheckFailure, place: CheckPlace, label: str
    ) -> None:
        """
        Refuse a failure to reach the network that the target has as well.

        Raises:
            Untold: the command did not reach its hosts, and does not on the target either.
        """
        trouble = network_trouble(failure.log_tail) if rule.network else None
        if trouble is not None and self._alone(rule, place, f"{label}-reach") is not None:
            raise Untold(f"the command that makes {rule.named} did not reach what it needs: {trouble}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrun:
    """Stands in for `Remaking` in a request that lands nothing: files stay as they were merged."""

    definitions: Sequence[RegenerateDefinition]

    def is_made(self, path: str) -> bool:
        return any(is_made(rule, path) for rule in self.definitions)

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
    Return the generated files of a request. None if the target has none. Without a place, no command runs.

    With `free`, only people made the change, and may change the files that commands run.
    """
    if not definitions:
        return None
    kept_files = KeptFiles(mirror=mirror, run=request.run, private=request.private)
    grants = ("**",) if free else tuple(glob for entry in request.spec for glob in entry.grants)
    return Remaking(definitions=definitions, kept=kept_files, base=CommitId(request.base), place=place, grants=grants)


def commands_of(rule: RegenerateDefinition) -> tuple[str, ...]:
    return tuple(command for command in (rule.setup, rule.run) if command)


def _is_due(rule: RegenerateDefinition, git: Git, merged: Merged, tree: TreeId) -> bool:
    """Tell whether the entry changed a source of the files, and the tip brought in anything that counts."""
    if not any(is_source(rule, path) for path in differing(git, merged.tip, tree)):
        return False
    return any(counts(rule, path) for path in differing(git, merged.entry, tree))


def _lost(definitions: Sequence[RegenerateDefinition], git: Git, merged: Merged) -> tuple[str, ...]:
    """Return generated files in conflict, although the entry changed none of their sources."""
    lost: list[str] = []
    for rule in definitions:
        mine = [path for path in merged.conflicts if is_made(rule, path)]
        if mine and not any(is_source(rule, path) for path in differing(git, merged.tip, merged.tree)):
            fork = CommitId(git.text("merge-base", merged.tip, merged.entry))
            changed = differing(git, fork, merged.entry)
            # If it made the same change as entries before it, the generated files are there already.
            lost += [] if any(is_source(rule, path) for path in changed) else mine
    return tuple(sorted(lost))


def _started(rule: RegenerateDefinition, git: Git, tree: TreeId, on: CommitId) -> tuple[TreeId, tuple[str, ...]]:
    """Return the tree with the old generated files put back, and the paths where the entry had others."""
    back = tuple(path for path in differing(git, on, tree) if is_made(rule, path))
    return with_files(git, tree, back, files_of(git, on, back)) if back else tree, back


def _put(rule: RegenerateDefinition, git: Git, start: TreeId, made: CommitId) -> tuple[TreeId, set[str]]:
    """Return the tree with the generated files alone taken from `made`, and their paths."""
    before, after = make_files(rule, git, start), make_files(rule, git, made)
    changed = [path for path in {**before, **after} if before.get(path) != after.get(path)]
    return with_files(git, start, changed, after) if changed else start, {*before, *after}


def _require_answer(made: TreeId | CheckFailure) -> TreeId | CheckFailure:
    """
    Return what was made, or its failure.

    Raises:
        Untold: the failure says nothing about the tree.
    """
    if isinstance(made, CheckFailure) and (nothing := untold(made)) is not None:
        raise Untold(nothing)
    return made


def _refuse_command(rule: RegenerateDefinition, failure: CheckFailure) -> NoReturn:
    where = " on the target itself"
    if failure.how in _SLOW:
        raise Untold(f"the command that makes {rule.named} {describe_failure(failure, where)}")
    why = (
        missing_program(failure, where)
        or f"the command that makes {rule.named} {describe_failure(failure, where)}; mend it"
    )
    raise NotConfigured(why)
