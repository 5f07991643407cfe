"""Text as people type it, made uniform."""

import re


def normalise_sku(raw):
    """'ab  1204' and 'AB--1204' are both AB-1204."""
    parts = re.split(r"[\s_-]+", raw.strip().upper())
    return "-".join(part for part in parts if part)


def shorten(text, width):
    if len(text) <= width:
        return text
    return text[: width - 3].rstrip() + "..."
