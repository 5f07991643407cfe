"""
Certificates: the inputs they are bound to, and whether a set of them proves a tree.

A check's **inputs** are the whole tree, unless its definition names the `paths` its outcome depends on. Then they are
these, together with every path that no check's `paths` cover: a forgotten path counts for all checks. The definitions
and inputs of the checks it uses are part of its own.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from forgepool.supervisor.messages.answers import Certificate
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.schema.confinement import Level
from forgepool.workers.schema.settings import inherit_environment
from forgepool.workers.workspace.checks.dependencies import environment_fingerprint
from forgepool.workers.workspace.checks.lines import line_of, match_inputs
from forgepool.worktrees.git.git import Git, TreeId

_NO_SAY = frozenset({"cost_s", "voting", "traced"})
"""The fields of a definition that do not change what is run."""
_MOST_KNOWN = 50
"""Findings of linters that a certificate names; there may be thousands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of one tree's checks. The tree is listed at most once, and only where some check has `paths`."""

    git: Git
    tree: TreeId
    checks: Sequence[CheckDefinition]
    _listed: list[tuple[str, bytes]] = field(default_factory=list, repr=False, compare=False)

    def of(self, check: CheckDefinition) -> str:
        """The tree's id, or a digest of the part of it that the check depends on."""
        counts = match_inputs(check, self.checks)
        if counts is None:
            return self.tree
        digest = hashlib.sha256()
        for path, record in self.records():
            if counts(path):
                digest.update(b"%d:" % len(record) + record)
        return f"part-{digest.hexdigest()}"

    def records(self) -> Sequence[tuple[str, bytes]]:
        """Return each path of the tree with its record, as git lists them."""
        if not self._listed:
            listed = self.git.run("ls-tree", "-r", "-z", "--full-tree", self.tree).stdout.split(b"\0")[:-1]
            self._listed.extend((os.fsdecode(record.partition(b"\t")[2]), record) for record in listed)
        return self._listed


def definition_digest(check: CheckDefinition, checks: Sequence[CheckDefinition]) -> str:
    """Return the digest of the check and of all checks it uses."""
    line = line_of(check, checks)
    return _digest([each.model_dump(mode="json", exclude={*_NO_SAY, *_unset(each)}) for each in line])


def _unset(check: CheckDefinition) -> set[str]:
    """Without a baseline the digest is that of earlier releases."""
    return {"baseline"} if check.baseline is None else set()


def environment(level: Level) -> str:
    """Return all that may change a check's answer on this host, with the sandbox and the programs its commands find."""
    lent = _digest(sorted(inherit_environment().items()))
    return f"{environment_fingerprint()}-{level}-{lent[:12]}"


def certificate_key(check: str, definition: str, environment: str, inputs: str, against: Sequence[str] = ()) -> str:
    return _digest([check, definition, environment, inputs, *against])


def certify(
    check: CheckDefinition,
    checks: Sequence[CheckDefinition],
    *,
    inputs: str,
    environment: str,
    seconds: float,
    host: str,
    known: Sequence[str] = (),
    findings: int = 0,
    against: Sequence[str] = (),
) -> Certificate:
    """
    The certificate of a check that was seen green on these inputs, in this environment.

    With `known` failures it is bound to the inputs `against` which it is no worse.
    """
    bound = tuple(against) if known else ()
    definition = definition_digest(check, checks)
    return Certificate(
        key=certificate_key(check.name, definition, environment, inputs, bound),
        check=check.name,
        definition=definition,
        environment=environment,
        tree=inputs,
        seconds=seconds,
        host=host,
        known_failures=tuple(known[:_MOST_KNOWN]) if findings else tuple(known),
        findings=findings,
        against=bound,
    )


def describe_failures(certificate: Certificate) -> tuple[str, ...]:
    """Describe the remaining failures: tests by their ids, findings of linters and type checkers by their number."""
    if certificate.findings:
        return (f"{certificate.findings} finding{'s' * (certificate.findings > 1)} of '{certificate.check}'",)
    return certificate.known_failures


def unproven(
    checks: Sequence[CheckDefinition], inputs: Inputs, certificates: Sequence[Certificate], base: Inputs | None = None
) -> tuple[str, ...]:
    """
    Names of the checks that no valid certificate covers for these inputs; empty means proven.

    Without `base`, the tree on which it is to land, a certificate with known failures counts as one of green.
    """
    valid = {
        (one.check, one.definition, one.tree): one
        for one in certificates
        if one.key == certificate_key(one.check, one.definition, one.environment, one.tree, one.against)
    }

    def is_proven(check: CheckDefinition) -> bool:
        one = valid.get((check.name, definition_digest(check, checks), inputs.of(check)))
        return one is not None and (base is None or not one.known_failures or base.of(check) in one.against)

    return tuple(check.name for check in checks if not is_proven(check))


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
