"""Certificates: what they are bound to, and whether a set of them proves a tree."""

import hashlib
import json
from collections.abc import Sequence

from supervisor.definitions import CheckDefinition
from supervisor.messages import Certificate
from workers.kept_folders import environment_fingerprint


def definition_digest(check: CheckDefinition) -> str:
    return _digest(check.model_dump(mode="json"))


def certificate_key(check: str, definition: str, environment: str, tree: str) -> str:
    return _digest([check, definition, environment, tree])


def certify(check: CheckDefinition, *, tree: str, seconds: float, host: str) -> Certificate:
    """The certificate of a check that was just seen green on `tree`, on this host."""
    definition = definition_digest(check)
    environment = environment_fingerprint()
    return Certificate(
        key=certificate_key(check.name, definition, environment, tree),
        check=check.name,
        definition=definition,
        environment=environment,
        tree=tree,
        seconds=seconds,
        host=host,
    )


def unproven(checks: Sequence[CheckDefinition], tree: str, certificates: Sequence[Certificate]) -> tuple[str, ...]:
    """Names of the checks that no valid certificate covers for this tree; empty means proven."""
    valid = {
        (one.check, one.definition)
        for one in certificates
        if one.tree == tree and one.key == certificate_key(one.check, one.definition, one.environment, one.tree)
    }
    return tuple(check.name for check in checks if (check.name, definition_digest(check)) not in valid)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
