"""A lead's frame, checkpoints and brief are shown as long as its conversation lasts, under every profile."""

from pathlib import Path

import pytest
from led import Did, Led, archive, read
from recall import sized

from forgepool.workers.context.edits.state import Cause, SummaryQuestion, SummaryReply
from forgepool.workers.context.profiles import registry
from forgepool.workers.context.replay.simulation import summary

_NOTES = {
    "frame": {"questions": ["which parser drops the zone?", "who calls it?"]},
    "checkpoint": {"changed": ["the second parser is the one"]},
    "brief": {"what_matters": ["t1 decides"]},
}
_IDLE = ("off", "ledger-lossless", "pace", "advisory")
"""Profiles that find nothing to remove here."""
_CAUSES: tuple[Cause, ...] = ("call", "overflow", "wish", "cold")


@pytest.mark.parametrize("name", registry.names())
def test_no_profile_drops_a_note(name: str, tmp_path: Path) -> None:
    talk = Led(profile=sized(name, 20_000), window_tokens=20_000, archive=archive(tmp_path / "a"))

    def ask(question: SummaryQuestion) -> SummaryReply:
        return summary(question, talk.view.turns, talk.view.deeds)

    for note, said in _NOTES.items():
        talk.model(Did(tool=note, arguments=said, answer="OK: kept in sight"), said="I say so.")
        for at in range(12):
            talk.model(read(f"src/{note}_{at}.py", "x = 1\n" * 400), said="I read on.")
            for cause in _CAUSES:
                talk.ask(cause, ask)
    assert talk.view.rebuilds or name in _IDLE
    for said in _NOTES.values():
        for lines in said.values():
            assert all(line in talk.text for line in lines), talk.text[:3000]
