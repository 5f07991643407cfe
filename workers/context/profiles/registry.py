"""The profiles by the names that people use in settings, plans, tasks and replays."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from forgepool.workers.context.edits.state import ContextState, Moment, Profile
from forgepool.workers.context.profiles.advisory import Advisory
from forgepool.workers.context.profiles.comparators import Clear, Compact, Condenser
from forgepool.workers.context.profiles.forge import ForgeProfile
from forgepool.workers.context.profiles.ghost import Ghost
from forgepool.workers.context.profiles.ledger import variant
from forgepool.workers.context.profiles.pace import Pace
from forgepool.workers.context.profiles.soulforge import SoulforgeV1, SoulforgeV2
from forgepool.workers.context.shorten.new_results import Birth
from forgepool.worktrees.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class Off:
    """The profile `off`, which never removes anything."""

    @property
    def name(self) -> str:
        return "off"

    def propose(self, state: ContextState, moment: Moment) -> None:
        """Propose nothing."""


DEFAULT = "ledger"


class UnknownProfile(UserError):
    """An unknown profile name; the message is one sentence for the user."""

    def __init__(self, name: str) -> None:
        near = difflib.get_close_matches(name, names(), n=1, cutoff=0.5)
        meant = f"write '{near[0]}', or another" if near else "write one"
        super().__init__(f"there is no context profile '{name}'; {meant} of these: {', '.join(names())}")
        self.name = name


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileEntry:
    make: Callable[[], Profile]
    told: str
    """Its behaviour in one sentence."""
    birth: Birth | None = None
    """The shortening of results when they enter; None for none."""


class _Lossless(Off):
    """The variant `ledger-lossless`, which shortens results only when they enter, and without loss."""

    @property
    def name(self) -> str:
        return "ledger-lossless"


def names() -> tuple[str, ...]:
    """Return the names of all profiles, the default first."""
    return tuple(_entries())


def find_profile(name: str) -> ProfileEntry:
    """
    Raises:
        UnknownProfile: there is none of that name.
    """
    try:
        return _entries()[name]
    except KeyError:
        raise UnknownProfile(name) from None


def profile(name: str) -> Profile:
    """
    Return a new profile with its published settings.

    Raises:
        UnknownProfile: there is none of that name.
    """
    return find_profile(name).make()


@lru_cache(maxsize=1)
def _entries() -> dict[str, ProfileEntry]:
    return {
        DEFAULT: ProfileEntry(
            make=lambda: variant(DEFAULT),
            told="The card, a ledger of what happened, hot files and the latest turns; rebuilt wholesale and rarely.",
            birth=Birth(),
        ),
        "ledger-cheap": ProfileEntry(
            make=lambda: variant("ledger-cheap"),
            told="Like ledger, but keeps less: the cheapest; more has to be read again.",
            birth=Birth(),
        ),
        "ledger-safe": ProfileEntry(
            make=lambda: variant("ledger-safe"),
            told="Like ledger, but keeps more: hardly anything has to be read again.",
            birth=Birth(),
        ),
        "ledger-lossless": ProfileEntry(
            make=_Lossless,
            told="Results are shortened when they enter where nothing is lost by it; nothing is ever removed.",
            birth=Birth.lossless(),
        ),
        "off": ProfileEntry(make=Off, told="Nothing is ever removed; a conversation that no longer fits ends."),
        "pace": ProfileEntry(make=Pace, told="Stale reads and earlier runs give way to one line before every call."),
        "ghost": ProfileEntry(
            make=Ghost, told="At 85% of the window old results are masked, then summarised by a model."
        ),
        "soulforge-v2": ProfileEntry(
            make=SoulforgeV2,
            told="At 70% of the window all but the last messages gives way to a state known by rules.",
        ),
        "soulforge-v1": ProfileEntry(
            make=SoulforgeV1,
            told="At 70% of the window all but the last messages gives way to a model's summary.",
        ),
        "forge": ProfileEntry(
            make=ForgeProfile, told="Long outputs, then reads, then all: at 40%, 70% and 90% of the window."
        ),
        "advisory": ProfileEntry(make=Advisory, told="Only noise is removed, and only when the agent asks for it."),
        "clear": ProfileEntry(make=Clear, told="Beyond 100,000 tokens the oldest results are cleared in batches."),
        "condenser": ProfileEntry(make=Condenser, told="Beyond 80 events the middle gives way to a model's summary."),
        "compact": ProfileEntry(make=Compact, told="Beyond 100,000 tokens a model sums up all but the last turns."),
    }
