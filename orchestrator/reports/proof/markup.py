"""
HTML made of values, so that no text of a run is taken for markup: whatever is no `Markup` is escaped.

Escape sequences of terminals are dropped. Other characters that do not print, such as those that turn the direction of
a line, are shown as `\\u202e`.
"""

import html
from collections.abc import Iterable
from dataclasses import dataclass

from forgepool.workers.schema.error_lines import without_escapes

_LONGEST = 20_000
"""Characters of one text that a page shows."""
_EMPTY = frozenset(("meta", "br"))


@dataclass(frozen=True, slots=True)
class Markup:
    """Text that is HTML."""

    text: str


Child = str | Markup | Iterable["Child"] | None


def escape(text: str) -> str:
    """Return the text as HTML shows it, in an element or a quoted attribute."""
    plain = without_escapes(text[:_LONGEST])
    if not plain.isprintable():
        shown = (one if one.isprintable() or one == "\n" else one.encode("unicode_escape").decode() for one in plain)
        plain = "".join(" " if one == "\\t" else one for one in shown)
    return html.escape(plain)


def tag(element: str, *children: Child, **attributes: str) -> Markup:
    """Return an element. An attribute `class_` is written `class`; `http_equiv` is `http-equiv`."""
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"' for name, value in attributes.items() if value
    )
    head = f"<{element}{named}>"
    return Markup(head) if element in _EMPTY else Markup(f"{head}{join(children)}</{element}>")


def join(child: Child) -> str:
    """Return the HTML of a text, of markup, or of several of them."""
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child.text
    return escape(child) if isinstance(child, str) else "".join(join(one) for one in child)
