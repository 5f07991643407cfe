"""A card in the text of a submission's tag: one line, whatever the card says."""

import base64
import binascii
import re

from pydantic import ValidationError

from forgepool.orchestrator.journal.queue_events import Asks, Card
from forgepool.workers.schema.globs import parse
from forgepool.workers.schema.segments import BadGlob

_CARD = re.compile(r"^Card: (.+)$", re.MULTILINE)
_ASKS = re.compile(r"^Asks: (\S+) (\S+) ([0-9]{1,9})$", re.MULTILINE)
_MOST_CHARACTERS = 5_000_000
_STRANGE = "what its run demands cannot be read here; keep the gate with a later version"


class CardUnreadable(Exception):
    """There is a card, and what it demands is not known; one sentence."""


def write_card_lines(card: Card) -> list[tuple[str, str]]:
    """The lines: a tag's are folded, and a description's must not be. Who asks is told to whoever cannot read more."""
    asks = card.asks
    text = base64.b64encode(card.encode().encode()).decode()
    return [("Asks", f"{asks.run} {asks.task} {asks.number}"), ("Card", text)]


def read_card(text: str) -> Card | None:
    """
    Of a tag's text; None where it has none.

    Raises:
        CardUnreadable: it is too long, or of a later version, or names files in a way that nobody can keep to.
    """
    found = _CARD.search(text)
    if found is None:
        return None
    if len(found[1]) > _MOST_CHARACTERS:
        raise CardUnreadable(_STRANGE)
    try:
        card = Card.model_validate_json(base64.b64decode(found[1], validate=True))
    except (ValidationError, binascii.Error, ValueError) as strange:
        raise CardUnreadable(_STRANGE) from strange
    _prove_globs(card)
    return card


def _prove_globs(card: Card) -> None:
    """What `extended` names are paths as they are, and read as no glob: there is nothing in them to be wrong."""
    for glob in (*(card.files or ()), *card.planned):
        try:
            parse(glob)
        except BadGlob as wrong:
            raise CardUnreadable(
                f"what its run demands cannot be kept to: {wrong}; give it again without it"
            ) from wrong


def read_asks(text: str) -> Asks | None:
    """Who wants to be told, whatever else can be read."""
    found = _ASKS.search(text)
    try:
        return Asks(run=found[1], task=found[2], number=int(found[3])) if found is not None else None
    except ValidationError:
        return None
