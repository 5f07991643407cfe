"""
What an agent decides, finds and remarks, told from its sentences by the phrases they use.

What it says, not what is so. The phrases are SoulForge's, of the week in which it had any. The sentence around one is
kept where it gives a reason, since "because of the lock" alone says nothing; and "let's check the file" is no decision,
of which twenty-five would leave room for no other.
"""

import re
from dataclasses import dataclass

from forgepool.workers.context.profiles.shared.outlines import beginning

_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_END = re.compile(r"(?<=[.!?])\s+|\n+")
_DECIDES = re.compile(
    r"\b(?:I['’]ll|let['’]s|we should|I['’]m going to|the approach is|decided to|choosing|using|switching to)\b"
    r".{10,120}",
    re.IGNORECASE,
)
_REASONS = re.compile(r"\b(?:because|since|the reason is)\b.{10,120}", re.IGNORECASE)
_FINDS = re.compile(
    r"\b(?:found that|discovered|it turns out|interestingly|the issue (?:is|was))\b.{10,150}", re.IGNORECASE
)
_FILLER = re.compile(
    r"(?:ok|okay|sure|let me|i['’]ll now|here['’]s|looking at|alright|got it|understood)\b", re.IGNORECASE
)
_LOOKS = re.compile(
    r"(?:(?:now|first|next|so|then|and|but)\b,? )?(?:I['’]ll|I will|let['’]s|I['’]m going to|we should|I need to) "
    r"(?:(?:also|now|first|just|quickly) )?(?:check|look|see|read|view|run|re-?run|search|find|list|examine|verify"
    r"|inspect|open|try|start by)\b",
    re.IGNORECASE,
)
"""Announces a step that the tools' results tell of."""
_REASON_CHARACTERS = 240
_NOTE_CHARACTERS = 300
_LONG_NOTE_CHARACTERS = 500
_LONG_NOTE_SENTENCES = 5
_SHORTEST = 15
_SHORTEST_NOTE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Remarks:
    decisions: tuple[str, ...] = ()
    discoveries: tuple[str, ...] = ()
    note: str = ""
    """What is neither, within 300 characters, or five sentences within 500."""


def remarks(text: str) -> Remarks:
    decisions: list[str] = []
    discoveries: list[str] = []
    rest: list[str] = []
    for sentence in filter(None, map(_plain, _END.split(_FENCED.sub("\n", text)))):
        if _LOOKS.match(sentence):
            continue
        found, decided = _FINDS.search(sentence), _decision(sentence)
        if found is not None:
            discoveries.append(found.group())
        if decided is not None:
            decisions.append(decided)
        if found is None and decided is None:
            rest.append(sentence)
    return Remarks(decisions=tuple(decisions), discoveries=tuple(discoveries), note=_note(rest))


def _decision(sentence: str) -> str | None:
    if _FILLER.match(sentence):
        return None
    if (found := _DECIDES.search(sentence)) is not None:
        return found.group()
    return beginning(sentence, _REASON_CHARACTERS) if _REASONS.search(sentence) else None


def _note(sentences: list[str]) -> str:
    told = [sentence for sentence in sentences if not _FILLER.match(sentence)]
    whole = " ".join(told)
    if len(told) <= 3 and len(whole) <= _NOTE_CHARACTERS:
        return whole if len(whole) >= _SHORTEST_NOTE else ""
    long = [sentence for sentence in told if len(sentence) >= _SHORTEST]
    return beginning(" ".join(long[:_LONG_NOTE_SENTENCES]), _LONG_NOTE_CHARACTERS)


def _plain(sentence: str) -> str:
    return " ".join(sentence.strip().lstrip("-*#> ").removeprefix("THOUGHT:").split())
