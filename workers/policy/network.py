"""
Which of the hosts that a plan wants for a task the policy lets it have.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from workers.policy.host import HostPattern
from workers.policy.judgement import judge_host
from workers.policy.layers import Policy
from workers.sandbox.network.hosts import BadHost, read_rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    hosts: tuple[str, ...]
    """As they were wanted. None of them: no network."""
    refused: tuple[tuple[str, str], ...]
    """Each host that is not to be had, and why."""


Asking = Literal["plan", "repository"]


class HostsRefused(Exception):
    """A host that is wanted is not to be had; one sentence."""


def require_hosts(policy: Policy, wanted: Sequence[str], *, asked_by: Asking, what: str) -> tuple[str, ...]:
    """
    All of the hosts, or none: what needs one cannot do without it. `what` is who wants them, for the sentence.

    Raises:
        HostsRefused: one of them is not to be had.
    """
    granted = granted_hosts(policy, wanted, asked_by=asked_by)
    for host, why in granted.refused:
        raise HostsRefused(f"{what} wants the host {host}, which is not to be had: {why}")
    return granted.hosts


def granted_hosts(policy: Policy, wanted: Sequence[str], *, asked_by: Asking) -> Granted:
    """
    A plan's asking for a host settles what stands at `prompt`, a repository's does not: it may not loosen what the
    person allows. A denied host is refused, and so is a pattern that means a denied one among others.
    """
    missing = "say so in policy.yaml: {match: {network: HOST}, decision: allow}"
    hosts: list[str] = []
    refused: list[tuple[str, str]] = []
    for text in dict.fromkeys(wanted):
        try:
            read_rule(text)
            judged = judge_host(policy, HostPattern.of(text))
        except BadHost as wrong:
            refused.append((text, str(wrong)))
            continue
        if judged.decision == "deny":
            refused.append((text, judged.reason))
        elif judged.decision == "prompt" and asked_by == "repository":
            refused.append((text, f"no rule of yours allows it; {missing.replace('HOST', repr(text))}"))
        else:
            hosts.append(text)
    return Granted(hosts=tuple(hosts), refused=tuple(refused))
