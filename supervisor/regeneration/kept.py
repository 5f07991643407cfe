"""
What commands have made, kept under its key: a ref in the hub, created once and never moved.

The hub alone says what is kept, for whoever asks and whenever: a host's own copy might be of a time that the hub has
forgotten, and somebody else has made the files anew since. Refs go with their run, or when a gate has no use for them;
what is gone is made again, and what was tested with it is tested again.

Who asks for no landing (`private`) keeps what was made on this host alone, and writes nothing to the hub.
"""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from forgepool.supervisor.gate_file.document import RegenerateDefinition
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
    """Does the command make it?"""
    return any(parse(glob).matches(path) for glob in definition.paths)


def is_source(definition: RegenerateDefinition, path: str) -> bool:
    """Is something made of it?"""
    if not definition.of:
        return not is_made(definition, path)
    return any(parse(glob).matches(path) for glob in definition.of)


def counts(definition: RegenerateDefinition, path: str) -> bool:
    """The files themselves count as well: commands go by what is there, and leave as it is what need not change."""
    return is_made(definition, path) or is_source(definition, path)


def make_files(definition: RegenerateDefinition, git: Git, tree: CommitId | TreeId) -> dict[str, str]:
    """What of a tree the command makes, as `worktrees.commits.overlay` has files."""
    below = _begin(definition.paths)
    return {path: facts for path, facts in files_of(git, tree, below).items() if is_made(definition, path)}


def _begin(globs: Sequence[str]) -> tuple[str, ...] | None:
    """Folders and files in which all lies that they cover; None where it may lie anywhere."""
    heads = {"/".join(way.head) for glob in globs for way in parse(glob).ways}
    return None if "" in heads else tuple(sorted(heads))


def key_of(definition: RegenerateDefinition, tree: TreeId) -> str:
    """
    Equal for equal commands and equal trees, whoever asks.

    Whole trees, whatever the definition says that the files are made of: a command reads what it likes, its own scripts
    among it, and what it made for one entry must not be another's that lacks what the first had brought.
    """
    return hashlib.sha256(_FORM + definition.encode().encode() + b"\0" + tree.encode()).hexdigest()


def own_patch_id(git: Git, on: CommitId, step: ComposedStep) -> str:
    """
    An approval holds for it wherever the entry comes to stand: what was made follows from what was approved.

    Where the entry's own version of such files stands, it is part of it.
    """
    if step.made is None:
        return patch_id(git, on, step.tree)
    return patch_id(git, on, with_files(git, step.tree, step.made.paths, files_of(git, on, step.made.paths)))


def joint_patch_id(git: Git, on: CommitId, steps: Sequence[ComposedStep], tree: TreeId) -> str:
    """Of several, or of a tree that was put together by others, that of all that is changed together."""
    return own_patch_id(git, on, steps[0]) if len(steps) == 1 else patch_id(git, on, tree)


OWN_KEPT_S = 3 * 24 * 3600.0
"""How long a host keeps what was made for who lands nothing."""


class CannotKeep(Exception):
    """The hub does not take what was made; one sentence. Nobody's fault who stands in line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFiles:
    """What one run, or one gate, has kept."""

    mirror: Mirror
    run: str
    private: bool = False
    _known: dict[str, CommitId] = field(default_factory=dict, repr=False, compare=False)
    """Of this request: within it nothing becomes another."""

    def find(self, key: str) -> CommitId | None:
        """
        A commit whose tree has the files, and nothing else; it is here.

        Raises:
            GitFailed, MissingCommit: the hub could not be asked, or lost it in between.
        """
        if key not in self._known:
            found = self._own(key) if self.private else self._of_hub(key)
            if found is None:
                return None
            self._known[key] = found
        return self._known[key]

    def keep(self, key: str, tree: TreeId, named: str) -> CommitId:
        """
        The tree, kept; or what somebody else has kept meanwhile.

        Raises:
            CannotKeep: the hub takes no such ref.
            GitFailed, MissingCommit: as `find`.
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
        said = self.mirror.git.run("rev-parse", "--verify", "--quiet", self._own_ref(key), ok=(0, 1)).text
        return CommitId(said) if said else None

    def _keep_own(self, key: str, made: CommitId) -> CommitId:
        """Others of this host may ask the same at the same time: the first one's counts."""
        git, nothing = self.mirror.git, "0" * len(made)
        git.run("update-ref", self._own_ref(key), made, nothing, ok=range(-64, 256))
        self._forget_old()
        return self._own(key) or made

    def _forget_old(self) -> None:
        """So that a host's mirror does not grow by all that was ever asked of it."""
        form = "--format=%(creatordate:unix) %(refname)"
        said = self.mirror.git.text("for-each-ref", form, self._own_ref("")).splitlines()
        for at, _, ref in (line.partition(" ") for line in said):
            if time.time() - float(at) > OWN_KEPT_S:
                self.mirror.git.run("update-ref", "-d", ref)

    def _own_ref(self, key: str) -> str:
        return overlay_ref(self.run, key).replace("refs/", "refs/hub/", 1)
