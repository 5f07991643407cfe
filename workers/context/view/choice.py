"""
The choice of a task's context profile: by the worker's settings, the plan, or a person while it runs.

The transcript records each choice; the last one is in force.
"""

from collections.abc import Sequence

from forgepool.workers.context.edits.state import Profile
from forgepool.workers.context.profiles.registry import profile
from forgepool.workers.context.transcript.entries import Entry, Profiled, Transcript, now

A_PERSON = "a person"
ADVISORY = "advisory"
"""The profile whose agent gets a tool to clear its own context."""


def choose_profile(*, by_person: str | None, in_plan: str, in_settings: str) -> Profile:
    """
    Return the profile in force: a person's choice counts above the plan's, and that above the settings.

    Raises:
        UnknownProfile: there is none of that name.
    """
    return profile(by_person or in_plan or in_settings)


def begin_with(transcript: Transcript, first: str, *, by_person: str | None) -> None:
    """Record the first profile, and a person's later choice if the transcript lacks it."""
    known = [entry for entry in transcript.entries if isinstance(entry, Profiled)]
    if not known:
        transcript.append(Profiled(at=now(), profile=first))
    elif by_person and by_person != known[-1].profile and by_person not in {one.profile for one in known if one.by}:
        transcript.append(Profiled(at=now(), profile=by_person, by=A_PERSON))


def in_force(entries: Sequence[Entry], otherwise: str) -> str:
    """Return the name of the last recorded profile, or `otherwise` where there is none."""
    return next((entry.profile for entry in reversed(entries) if isinstance(entry, Profiled)), otherwise)
