"""
Which of the hosts that a plan wants for a task the policy lets it have.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from workers.policy.host import HostPattern
from workers.policy.judgement import judge_host
from workers.policy.layers import Policy
from workers.sandbox.hosts import BadHost, read_rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    hosts: tuple[str, ...]
    """As they were wanted. None of them: no network."""
    refused: tuple[tuple[str, str], ...]
    """Each host that is not to be had, and why."""


def granted_hosts(policy: Policy, wanted: Sequence[str]) -> Granted:
    """
    A plan's asking for a host settles what stands at `prompt`; a denied host is refused, and so is a pattern that
    means a denied one among others.
    """
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
        else:
            hosts.append(text)
    return Granted(hosts=tuple(hosts), refused=tuple(refused))
