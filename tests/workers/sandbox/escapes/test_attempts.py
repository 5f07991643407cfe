"""No attempt to escape succeeds in the first choice. Each names the layers that stop it, which are also tried alone."""

import pytest
from holds import ALONE, OF_ROOT, Layers, holds
from outcomes import Of, Outcome
from table import AREAS, ATTEMPTS

from forgepool.workers.sandbox.layers import WEAKER

WHO = ("user", "root")
OF_USERS = [name for name, each in ATTEMPTS.items() if not each.needs_root]
BY_ALL = [*((name, "user") for name in OF_USERS), *((name, "root") for name in ATTEMPTS)]

LET_THROUGH_BY_THE_FALLBACK = {
    "processes of the host can be seen": ("see_the_harness", "read_command_lines"),
    "modes and times of your files outside can be changed, and their presence found out": (
        "change_a_mode",
        "change_times",
        "find_out_whether_a_key_is_there",
    ),
    "the worktree's .git file can be replaced (the harness does not read it)": (
        "write_to_the_pointer",
        "put_a_repository_in_place_of_the_pointer",
    ),
}
"""Attempts that the fallback lets through, by the text that tells the user about them."""


def test_there_are_attempts_in_every_area() -> None:
    """There are at least 140, and at least eight in each area."""
    assert len(ATTEMPTS) >= 140
    for area in AREAS:
        assert sum(each.area == area.__name__ for each in ATTEMPTS.values()) >= 8, area.__name__
    assert all(each.stopped_by for each in ATTEMPTS.values())


@pytest.mark.parametrize(("name", "who"), BY_ALL)
@pytest.mark.parametrize("held", ["nothing"])
def test_without_any_layer_an_attempt_succeeds(outcomes_of: Of, held: str, who: str, name: str) -> None:
    """Otherwise it would prove nothing about a sandbox. Some hosts stop a few attempts themselves."""
    outcome = outcomes_of(held, who)[name]
    idle = ATTEMPTS[name].may_be_idle
    if outcome.escaped is False and idle is not None:
        pytest.skip(f"it has no effect here without any sandbox: {idle}")
    assert outcome.escaped, outcome.said


@pytest.mark.parametrize(("name", "who"), [(name, who) for who in WHO for name in ATTEMPTS])
@pytest.mark.parametrize("held", ["bubblewrap"])
def test_the_first_choice_stops_it(outcomes_of: Of, held: str, who: str, name: str) -> None:
    outcome = outcomes_of(held, who)[name]
    assert outcome.escaped is False, outcome.said


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("held", ["landlock"])
def test_the_fallback_lets_through_what_it_names_alone(outcomes_of: Of, held: str, who: str) -> None:
    """The text shown to users is true: nothing else gets through."""
    assert set(LET_THROUGH_BY_THE_FALLBACK) <= set(WEAKER)
    told = {name for names in LET_THROUGH_BY_THE_FALLBACK.values() for name in names}
    outcomes = outcomes_of(held, who)
    assert {name: each.said for name, each in outcomes.items() if each.escaped is not False and name not in told} == {}


@pytest.mark.parametrize("held", [*ALONE, "bubblewrap", "landlock"])
@pytest.mark.parametrize("who", ["user"])
def test_a_layer_alone_stops_what_it_is_said_to_stop(outcomes_of: Of, held: str, who: str) -> None:
    """It stops nothing else: without its layers an attempt succeeds."""
    stop = holds(held, who)
    assert _wrongly(outcomes_of(held, who), outcomes_of("nothing", who), stop, OF_USERS) == {}


@pytest.mark.parametrize("held", ["seccomp", "filter", "user", "root", "files"])
@pytest.mark.parametrize("who", ["root"])
def test_a_layer_alone_stops_what_only_root_could_do(outcomes_of: Of, held: str, who: str) -> None:
    """Root has ways around single layers for the other attempts, such as the right to read all memory."""
    of_root = [name for name, each in ATTEMPTS.items() if each.needs_root]
    assert _wrongly(outcomes_of(held, who), outcomes_of("nothing", who), holds(held, who), of_root) == {}


@pytest.mark.parametrize("held", [*OF_ROOT, "bubblewrap", "landlock"])
@pytest.mark.parametrize("who", ["root"])
def test_root_s_commands_are_held_by_their_uid(outcomes_of: Of, held: str, who: str) -> None:
    """Alone it stops attempts on files of others. Without it bubblewrap does not confine root."""
    found = outcomes_of(held, who)
    # They are no root's commands, and what is withheld from users anyway proves nothing.
    bare = outcomes_of("nothing", who if held == "all but uid" else "user")
    assert _wrongly(found, bare, holds(held, who), list(ATTEMPTS)) == {}
    if held == "all but uid":
        assert found["open_where_dumps_go"].escaped


def _wrongly(found: dict[str, Outcome], bare: dict[str, Outcome], stop: Layers, names: list[str]) -> dict[str, str]:
    """Return attempts that passed a layer named as stopping them, or that were stopped by no named layer."""
    wrong = {}
    for name in names:
        attempt, outcome = ATTEMPTS[name], found[name]
        if outcome.escaped is None:
            wrong[name] = outcome.said
        elif attempt.stopped_by & stop:
            if outcome.escaped:
                wrong[name] = f"got through: {outcome.said}"
        elif not outcome.escaped and bare[name].escaped and not attempt.perhaps & stop:
            wrong[name] = f"stopped by another layer: {outcome.said}"
    return wrong
