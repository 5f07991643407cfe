"""
Which profile a task's conversations are shown by, from what was said of it: in the worker's settings, in the plan, by a
person while it runs. The transcript keeps what was chosen; what it names last is in force.
"""

from collections.abc import Sequence

from forgepool.workers.context.edits.state import Profile
from forgepool.workers.context.profiles.registry import profile
from forgepool.workers.context.transcript.entries import Entry, Profiled, Transcript, now

A_PERSON = "a person"
ADVISORY = "advisory"
"""The profile whose agent asks for its context to be cleared, and has a tool to do so."""


def choose_profile(*, by_person: str | None, in_plan: str, in_settings: str) -> Profile:
    """
    A person's word while it runs counts for more than the plan's, and that for more than the worker's settings.

    Raises:
        UnknownProfile: there is none of that name.
    """
    return profile(by_person or in_plan or in_settings)


def begin_with(transcript: Transcript, first: str, *, by_person: str | None) -> None:
    """Writes down the first profile, and what a person has chosen since where the transcript has not heard of it."""
    known = [entry for entry in transcript.entries if isinstance(entry, Profiled)]
    if not known:
        transcript.append(Profiled(at=now(), profile=first))
    elif by_person and by_person != known[-1].profile and by_person not in {one.profile for one in known if one.by}:
        transcript.append(Profiled(at=now(), profile=by_person, by=A_PERSON))


def in_force(entries: Sequence[Entry], otherwise: str) -> str:
    """By name; `otherwise` where the transcript names none."""
    return next((entry.profile for entry in reversed(entries) if isinstance(entry, Profiled)), otherwise)
