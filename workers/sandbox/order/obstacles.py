"""
Why bubblewrap fails where it is installed: the switches that forbid user namespaces, and how each is turned.

None of it decides anything: whether a level holds is tried (`layers`). This is for the sentence that follows.
"""

from dataclasses import dataclass
from pathlib import Path

_OUTSIDE = "docs/reference/sandbox.md says how"


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    found: str
    mend: str


def obstacle(root: Path = Path("/")) -> Obstacle | None:
    """The likeliest; None where no switch is against it."""
    switches = root / "proc" / "sys"
    if _number(switches / "kernel" / "apparmor_restrict_unprivileged_userns") == 1:
        return Obstacle(
            found="AppArmor refuses it user namespaces (kernel.apparmor_restrict_unprivileged_userns is 1)",
            mend=f"give bwrap an AppArmor profile that allows them; {_OUTSIDE}",
        )
    if _number(switches / "kernel" / "unprivileged_userns_clone") == 0:
        return Obstacle(
            found="user namespaces are switched off (kernel.unprivileged_userns_clone is 0)",
            mend="set it: sysctl -w kernel.unprivileged_userns_clone=1",
        )
    if _number(switches / "user" / "max_user_namespaces") == 0:
        return Obstacle(
            found="user namespaces are switched off (user.max_user_namespaces is 0)",
            mend="set it: sysctl -w user.max_user_namespaces=15000",
        )
    if any((root / mark).exists() for mark in (".dockerenv", "run/.containerenv")):
        return Obstacle(
            found="this is a container, whose own confinement forbids another inside",
            mend=f"start it with the security options that allow one; {_OUTSIDE}",
        )
    return None


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None
