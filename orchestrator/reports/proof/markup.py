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


STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --paper: #ffffff; --card: #f6f8fa;
  --good: #116329; --good-paper: #dafbe1; --bad: #82071e; --bad-paper: #ffebe9; --ask: #9a6700; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9da7b3; --line: #30363d; --paper: #0d1117; --card: #161b22;
    --good: #7ee787; --good-paper: #12261e; --bad: #ffa198; --bad-paper: #3c1618; --ask: #d29922; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .25rem 0 1rem; }
h2 { font-size: 1.15rem; margin: 2.25rem 0 .75rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 0 0 .4rem; }
p { margin: .4rem 0; }
blockquote { margin: .4rem 0; padding: .1rem 0 .1rem .9rem; border-left: .25rem solid var(--line); }
.plan { color: var(--soft); }
.mark { border-radius: 1rem; padding: .1rem .6rem; font-size: .85rem; font-weight: 600; }
.good { color: var(--good); background: var(--good-paper); }
.bad { color: var(--bad); background: var(--bad-paper); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: .5rem 0; font-size: .9rem; }
dt { color: var(--soft); }
dd { margin: 0; }
article { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .9rem 1rem;
  margin: 0 0 .8rem; }
article h3 + dl { margin-top: .2rem; }
ul { margin: .4rem 0; padding-left: 1.2rem; }
.wanted { list-style: none; padding: 0; }
.wanted li { border-left: .25rem solid var(--ask); padding: .1rem 0 .1rem .8rem; margin: 0 0 .9rem; }
pre { margin: .35rem 0; padding: .5rem .7rem; background: var(--paper); border: 1px solid var(--line);
  border-radius: .35rem; white-space: pre-wrap; font-size: .85rem; }
code { font-family: ui-monospace, monospace; }
details { margin: .5rem 0 0; }
summary { cursor: pointer; color: var(--soft); font-size: .9rem; }
table { width: 100%; border-collapse: collapse; font-size: .9rem; margin: .6rem 0; }
th { text-align: left; color: var(--soft); font-weight: 500; }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .8rem; }
.tiles p { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .7rem .9rem;
  margin: 0; color: var(--soft); font-size: .9rem; }
.tiles b { display: block; font-size: 1.25rem; color: var(--ink); }
@media (max-width: 40rem) {
  thead { position: absolute; left: -999rem; }
  tr { display: block; padding: .4rem 0; border-bottom: 1px solid var(--line); }
  td { display: grid; grid-template-columns: 7rem 1fr; border: 0; padding: .1rem 0; }
  td:empty { display: none; }
  td::before { content: attr(data-name); color: var(--soft); }
  dl { grid-template-columns: 5.5rem 1fr; gap: .2rem .6rem; }
}
@media print { details > * { display: block; } body { max-width: none; } }
"""
"""The style sheet of a page: light and dark, wide and narrow."""
