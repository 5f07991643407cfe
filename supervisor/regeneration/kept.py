"""
The keys of generated files, and their storage under these keys: a ref in the hub, created once and never moved.

Only the hub decides what is kept: a host's own copy may predate files that the hub has since lost and replaced. Refs
go with their run, or when a merge queue no longer needs them. Lost files are generated again, and tested again.

A request that lands nothing (`private`) keeps its files on this host alone, and writes nothing to the hub.
"""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from forgepool.workers.policy.gate_file.document import RegenerateDefinition
from forgepool.workers.schema.globs import parse
from forgepool.workers.workspace.refs import overlay_ref
from forgepool.worktrees.commits.candidate import files_of, with_files, write_commit
from forgepool.worktrees.commits.compose import ComposedStep
from forgepool.worktrees.commits.diff import patch_id
from forgepool.worktrees.git.git import CommitId, Git, TreeId
from forgepool.worktrees.hub.mirror import Mirror
from forgepool.worktrees.hub.push import Pushed, PushRefused, RefUpdate, Stale

_FORM = b"regenerate-2\0"


def is_made(definition: RegenerateDefinition, path: str) -> bool:
    """Tell whether the command generates this path."""
    return any(parse(glob).matches(path) for glob in definition.paths)


def is_source(definition: RegenerateDefinition, path: str) -> bool:
    """Tell whether files are generated from this path."""
    if not definition.of:
        return not is_made(definition, path)
    return any(parse(glob).matches(path) for glob in definition.of)


def counts(definition: RegenerateDefinition, path: str) -> bool:
    """Tell whether the path affects the command. The generated files do too: commands keep what need not change."""
    return is_made(definition, path) or is_source(definition, path)


def make_files(definition: RegenerateDefinition, git: Git, tree: CommitId | TreeId) -> dict[str, str]:
    """Return the generated files of a tree, in the form of `worktrees.commits.candidate.Files`."""
    below = _begin(definition.paths)
    return {path: facts for path, facts in files_of(git, tree, below).items() if is_made(definition, path)}


def _begin(globs: Sequence[str]) -> tuple[str, ...] | None:
    """Return folders and files that contain all these globs cover, or None if it may lie anywhere."""
    heads = {"/".join(way.head) for glob in globs for way in parse(glob).ways}
    return None if "" in heads else tuple(sorted(heads))


def key_of(definition: RegenerateDefinition, tree: TreeId) -> str:
    """
    Return the key of a command on a tree, the same on every host.

    The whole tree counts, whatever sources the definition names: a command reads what it likes, such as its own
    scripts.
    Its output for one entry must not serve another that lacks the first one's changes.
    """
    return hashlib.sha256(_FORM + definition.encode().encode() + b"\0" + tree.encode()).hexdigest()


def own_patch_id(git: Git, on: CommitId, step: ComposedStep) -> str:
    """
    Return the patch id of the entry's own changes, without generated files. An approval is bound to it.

    The entry's own version of such files counts where it was not regenerated.
    """
    if step.made is None:
        return patch_id(git, on, step.tree)
    return patch_id(git, on, with_files(git, step.tree, step.made.paths, files_of(git, on, step.made.paths)))


def joint_patch_id(git: Git, on: CommitId, steps: Sequence[ComposedStep], tree: TreeId) -> str:
    """Return the patch id of one step, or of all changes of several together."""
    return own_patch_id(git, on, steps[0]) if len(steps) == 1 else patch_id(git, on, tree)


OWN_KEPT_S = 3 * 24 * 3600.0
"""Seconds that a host keeps the files of a private request."""


class CannotKeep(Exception):
    """The hub does not accept the generated files. One sentence. No entry is to blame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFiles:
    """The generated files of one run or one merge queue."""

    mirror: Mirror
    run: str
    private: bool = False
    _known: dict[str, CommitId] = field(default_factory=dict, repr=False, compare=False)
    """Files found during this request, so that they stay the same within it."""

    def find(self, key: str) -> CommitId | None:
        """
        Return a local commit whose tree holds the files and nothing else, or None.

        Raises:
            GitFailed, MissingCommit: the hub could not be asked, or lost the commit in between.
        """
        if key not in self._known:
            found = self._own(key) if self.private else self._of_hub(key)
            if found is None:
                return None
            self._known[key] = found
        return self._known[key]

    def keep(self, key: str, tree: TreeId, named: str) -> CommitId:
        """
        Keep the tree, or return what another host has kept meanwhile.

        Raises:
            CannotKeep: the hub takes no such ref.
            GitFailed, MissingCommit: see `find`.
        """
        message = f"What was made: {named}\n"
        made = write_commit(self.mirror.git, tree=tree, parents=(), message=message, at=int(time.time()))
        self._known[key] = self._keep_own(key, made) if self.private else self._push(key, made)
        return self._known[key]

    def _of_hub(self, key: str) -> CommitId | None:
        ref = overlay_ref(self.run, key)
        found = self.mirror.hub_refs(ref).get(ref)
        if found is not None:
            self.mirror.ensure(found, refs=(ref,))
        return found

    def _push(self, key: str, made: CommitId) -> CommitId:
        ref = overlay_ref(self.run, key)
        match self.mirror.push((RefUpdate(ref=ref, new=made, expected=None),)):
            case Pushed():
                return made
            case Stale(_, actual) if actual is not None:
                self.mirror.ensure(actual, refs=(ref,))
                return actual
            case PushRefused(reason):
                raise CannotKeep(f"what was made cannot be kept in the hub: {reason}")
            case _:
                raise CannotKeep(f"{ref} appeared in the hub and went away again")

    def _own(self, key: str) -> CommitId | None:
        commit = self.mirror.git.run("rev-parse", "--verify", "--quiet", self._own_ref(key), ok=(0, 1)).text
        return CommitId(commit) if commit else None

    def _keep_own(self, key: str, made: CommitId) -> CommitId:
        """Keep the tree on this host. Of several processes at once, the first one wins."""
        git, nothing = self.mirror.git, "0" * len(made)
        git.run("update-ref", self._own_ref(key), made, nothing, ok=range(-64, 256))
        self._forget_old()
        return self._own(key) or made

    def _forget_old(self) -> None:
        """Delete old refs, so that the mirror does not grow with every private request."""
        form = "--format=%(creatordate:unix) %(refname)"
        lines = self.mirror.git.text("for-each-ref", form, self._own_ref("")).splitlines()
        for at, _, ref in (line.partition(" ") for line in lines):
            if time.time() - float(at) > OWN_KEPT_S:
                self.mirror.git.run("update-ref", "-d", ref)

    def _own_ref(self, key: str) -> str:
        return overlay_ref(self.run, key).replace("refs/", "refs/hub/", 1)
