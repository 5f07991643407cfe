"""
The sources of a policy's layers, and the policy built from them.

The repository's rules come from `forgepool.yaml` in the base commit, so that no agent changes a rule by editing its
worktree.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from forgepool.workers.policy.document import make_rules, mistakes_in, parse_policy, read_policy
from forgepool.workers.policy.layers import Policy
from forgepool.workers.policy.network import grant_hosts, require_hosts, require_hosts_of_all
from forgepool.workers.policy.rule import PolicyRule
from forgepool.workers.sandbox.network.package_access import PackageAccess, find_lent_access
from forgepool.workers.schema.documents import read, validate
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.policy_rules import RuleEntry
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.checkouts.checkout import Unusable
from forgepool.worktrees.commits.changes import FileTooLarge, read_file
from forgepool.worktrees.git.git import CommitId, Git

REPOSITORY_FILE = "forgepool.yaml"


class _RepositoryFile(BaseModel):
    """The part of `forgepool.yaml` that holds policy rules."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    policy: tuple[RuleEntry, ...] = ()


def policy_of(*, person: Path | None, repository: str | None = None, plan: Sequence[RuleEntry] = ()) -> Policy:
    """
    Build the policy with all its layers. `person` is that person's file, `repository` the text of `forgepool.yaml`.

    Raises:
        DocumentWrong: with every mistake found in the first file that has any.
    """
    return Policy(
        built_in=read_builtin_rules(),
        person=() if person is None else read_policy(person, str(person), "person"),
        repository=() if repository is None else repository_rules(repository),
        plan=make_rules(plan, "plan", [f"rule {at + 1}" for at in range(len(plan))]),
        phase=_shipped("phases.yaml"),
    )


def hosts_for_check(
    check: str, wanted: Sequence[str], person: Path | None, lent: PackageAccess | None = None, *, setup: bool = False
) -> tuple[str, ...]:
    """
    Return the hosts that a check and its set-up may reach.

    These are the hosts the repository wants, if the person who owns this host allows them all. A set-up also reaches
    the package indexes that are `lent` to it, unless the person denies them.

    Raises:
        HostsRefused: one of them is not allowed.
        DocumentWrong: the person's file is written wrongly.
    """
    if not wanted:
        return ()
    policy = policy_of(person=person)
    replaced = lent.stands_for if lent is not None else frozenset[str]()
    who = f"check '{check}'"
    hosts = require_hosts(policy, wanted, asked_by="repository", what=who, person=person, replaced=replaced)
    own = grant_hosts(policy, lent.hosts, asked_by="plan").hosts if setup and lent is not None and wanted else ()
    return tuple(dict.fromkeys((*hosts, *own)))


def require_check_hosts(checks: Mapping[str, Sequence[str]], settings: Settings) -> None:
    """
    Require the hosts of all checks at once, given by the checks' names, before the first of them is run.

    Raises:
        HostsRefused: some are not allowed; the message names all of these.
        DocumentWrong: the person's file is written wrongly.
    """
    if any(checks.values()):
        lent, person = find_lent_access(settings), settings.policy_file
        wanted = {f"check '{name}'": hosts for name, hosts in checks.items()}
        require_hosts_of_all(policy_of(person=person), wanted, person=person, replaced=lent.stands_for if lent else ())


def policy_alone(path: Path) -> Policy:
    """
    Build a policy from one file alone.

    Raises:
        DocumentWrong: with every mistake found.
    """
    return Policy(person=read_policy(path, str(path), "person"))


def repository_rules(text: str, name: str = REPOSITORY_FILE) -> tuple[PolicyRule, ...]:
    """
    Read the rules under `policy` in a `forgepool.yaml`, if it has any.

    Raises:
        DocumentWrong: with every mistake found in them.
    """
    document = read(text, name)
    entries = validate(document, _RepositoryFile).policy
    wrong = mistakes_in(document, entries, ("policy",))
    if wrong:
        raise DocumentWrong(name, wrong)
    places = [f"{name}:{document.line(('policy', at))}" for at in range(len(entries))]
    return make_rules(entries, "repository", places)


def policy_at(git: Git, commit: CommitId, *, person: Path | None) -> Policy:
    """
    Return the policy of the host's person, and of the repository as a commit has it.

    Raises:
        Unusable: the repository's file is too large to be read.
        DocumentWrong: with every mistake found in the rules.
    """
    try:
        data = read_file(git, commit, REPOSITORY_FILE)
    except FileTooLarge as large:
        raise Unusable(f"{REPOSITORY_FILE} at {commit[:12]} cannot be read: {large}") from large
    return policy_of(person=person, repository=None if data is None else data.decode(errors="replace"))


@lru_cache(maxsize=1)
def read_builtin_rules() -> tuple[PolicyRule, ...]:
    """Read the built-in rules."""
    return _shipped("defaults.yaml")


def _shipped(name: str) -> tuple[PolicyRule, ...]:
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    return parse_policy(text, name, "built-in" if name == "defaults.yaml" else "phase")
