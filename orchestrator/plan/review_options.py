"""
What a plan says of reviews and of the gate's scans, read: who reviews, and which rules are silent for which task.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from forgepool.orchestrator.plan.entries import GateOptions, PlanReading, ReviewEntry
from forgepool.supervisor.gate_file.document import ReviewWord
from forgepool.supervisor.messages import Independence, ReviewPolicy
from forgepool.workers.schema.documents import read_text
from forgepool.workers.schema.mistakes import DocumentWrong, Mistake, nearest
from forgepool.workers.schema.orders import Limits, Message


class PlanReview(Message):
    """Who reviews the plan's candidates, and whose."""

    policy: ReviewPolicy = ReviewPolicy()
    commands: bool = False
    """Also those of commands, which no model has made."""
    independence: Independence = "other_family"
    person: bool = False
    """No model is asked: a person's approval alone lets a candidate land."""


def review_by(word: ReviewWord) -> PlanReview | Literal["none"]:
    """Return the review that one word stands for."""
    match word:
        case "none":
            return "none"
        case "person":
            return PlanReview(person=True)
        case "self-other-model":
            return PlanReview(independence="other_model")


def review_of(reading: PlanReading, folder: Path) -> PlanReview | Literal["none"] | None:
    """The plan's `review`; a script that it names is read from its file, so that its text can travel."""
    written = reading.source.review
    if not isinstance(written, ReviewEntry):
        return None if written is None else review_by(written)
    script = None
    if written.scripted is not None:
        match script_in(folder, written.scripted):
            case DocumentWrong() as wrong:
                _refuse(reading, "scripted", f"'review' has a script that cannot be used: {wrong}")
            case text:
                script = text
    if written.scripted is not None and written.by:
        _refuse(reading, "by", "'review' has both 'by' and 'scripted'; a script takes the place of models: keep one")
    return PlanReview(policy=_policy(written, script), commands=written.commands)


def gate_of(reading: PlanReading) -> GateOptions:
    """The plan's `gate`. Who has written both a wave and a review has the whole reviewed at the end."""
    gate, review = reading.source.gate, reading.source.review
    if "integration_review" not in gate.model_fields_set:
        both = gate.wave is not None and isinstance(review, ReviewEntry)
        return gate.model_copy(update={"integration_review": "end" if both else "never"})
    if gate.integration_review != "never" and gate.wave is None:
        line = reading.document.line(("gate", "integration_review"))
        sentence = (
            f"'integration_review' of 'gate' is '{gate.integration_review}', and there is no 'wave', after whose "
            "checks it comes; write 'wave: {}' beside it"
        )
        reading.wrong.append(Mistake(line, sentence))
    return gate


def script_in(folder: Path, name: str) -> str | DocumentWrong:
    """A script's text, or why it cannot be used."""
    try:
        text = read_text(folder / name, name)
    except DocumentWrong as wrong:
        return wrong
    return text if text.strip() else DocumentWrong(name, [Mistake(1, "is empty")])


def check_silences(reading: PlanReading) -> None:
    """That what tasks waive are rules; where they are written, each once."""
    source = reading.source
    places = [(("defaults",), source.defaults), *((("tasks", at), one) for at, one in enumerate(source.tasks))]
    if not any(fields.waive for _, fields in places):
        return
    # The rules read grammars, which only who waives one has to wait for.
    from forgepool.supervisor.gate_file.rules import RULES

    for where, fields in places:
        for at, name in enumerate(fields.waive):
            if name not in RULES:
                line = reading.document.line((*where, "waive", at))
                reading.wrong.append(Mistake(line, f"'waive' names '{name}', which is no rule; {_meant(name, RULES)}"))


def _meant(name: str, known: Iterable[str]) -> str:
    rules = sorted(known)
    like = nearest(name, rules)
    return f"did you mean '{like[0]}'?" if like else f"rules are: {', '.join(rules)}"


def _policy(written: ReviewEntry, script: str | None) -> ReviewPolicy:
    """Limits that are not written are the reviewer's own, not those of an attempt."""
    limits = ReviewPolicy().limits.model_copy(
        update={name: getattr(written.limits, name) for name in written.limits.model_fields_set}
    )
    return ReviewPolicy(
        by=written.by,
        script=script,
        reviewers=written.reviewers,
        rounds=written.rounds,
        threshold="fix" if written.fix == "must" else "fix_if_easy",
        limits=Limits.model_validate(limits.model_dump()),
    )


def _refuse(reading: PlanReading, key: str, sentence: str) -> None:
    reading.wrong.append(Mistake(reading.document.line(("review", key)), sentence))
