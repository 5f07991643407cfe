"""A card in the text of a submission's tag: one line, whatever the card says."""

import base64
import binascii
import re

from pydantic import ValidationError

from orchestrator.through.messages import Card

KEY = "Card"
_LINE = re.compile(rf"^{KEY}: ([A-Za-z0-9+/=]+)$", re.MULTILINE)
_MOST_CHARACTERS = 500_000


def written(card: Card) -> str:
    """The value of the line: a tag's lines are folded, and a description's must not be."""
    return base64.b64encode(card.encode().encode()).decode()


def read_card(text: str) -> Card | None:
    """Of a tag's text; None where it has none that can be read."""
    found = _LINE.search(text) if len(text) < _MOST_CHARACTERS else None
    if found is None:
        return None
    try:
        return Card.model_validate_json(base64.b64decode(found[1], validate=True))
    except (ValidationError, binascii.Error, ValueError):
        return None
