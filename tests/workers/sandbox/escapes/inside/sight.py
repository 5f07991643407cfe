"""Checks from outside of an attempt's effect."""

from typing import TYPE_CHECKING, Any

from attempt import Check

if TYPE_CHECKING:
    from surroundings import World


def touched(world: "World", name: str, said: Any) -> bool:
    """Return whether its canary changed: content, mode, times, attributes, or existence."""
    return world.is_touched(name)


def heard(world: "World", name: str, said: Any) -> bool:
    """Return whether a listener outside was told its name."""
    return name in world.heard()


def harmed(world: "World", name: str, said: Any) -> bool:
    """Return whether its victim is dead."""
    return not world.is_alive(name)


def said_so(world: "World", name: str, said: Any) -> bool:
    """Trust its own answer, where nothing can be seen outside."""
    return said is True


def told(secret: str) -> Check:
    """Return a check that it knows a secret it was not given."""

    def check(world: "World", name: str, said: Any) -> bool:
        return world.secret(secret) in str(said)

    return check
