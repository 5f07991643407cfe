"""
Model families (claude, gpt, ...), known from the table of models and from the names that vendors give their models.

Work is reviewed by another family than those that made it. So an unknown model's family is `unknown`, never a guess,
and where a table and a model's own name differ, both families count. Pure.
"""

import re
from collections.abc import Collection, Iterable, Iterator

from forgepool.workers.llm.routing.router import ModelChoice
from forgepool.workers.llm.routing.table import Table

UNKNOWN = "unknown"

_NAMED = {
    "claude": "claude fable haiku opus sonnet",
    "gpt": "chatgpt codex gpt",
    "gemini": "gemini gemma",
    "mistral": "codestral devstral magistral ministral mistral mixtral pixtral",
    "qwen": "qvq qwen qwq",
    "deepseek": "deepseek",
    "llama": "codellama llama",
    "grok": "grok",
    "kimi": "kimi moonshot",
    "glm": "chatglm codegeex glm",
    "cohere": "c4ai command-a command-r",
    "phi": "phi",
    "nova": "nova",
    "minimax": "minimax",
    "nemotron": "nemotron",
    "granite": "granite",
    "ernie": "ernie",
    "hunyuan": "hunyuan",
    "scripted": "scripted",
}
"""The beginnings of models' names, by family."""
_BEGINNINGS = sorted(((word, family) for family, words in _NAMED.items() for word in words.split()), reverse=True)
_O_SERIES = re.compile(r"o\d(?![a-z0-9])")
_PIECES = re.compile(r"[/:@~.\s]+")
_VENDORS = {
    "anthropic": "claude",
    "openai": "gpt",
    "google": "gemini",
    "meta": "llama",
    "alibaba": "qwen",
    "moonshot": "kimi",
    "moonshotai": "kimi",
    "xai": "grok",
    "x-ai": "grok",
    "zhipu": "glm",
    "mistralai": "mistral",
}
"""Other words for a family in a table. In a model's own name they mean nothing: many servers use `openai/`."""
_PROGRAMS: dict[str, str] = {"claude": "claude", "codex": "gpt"}


def find_family(name: str) -> str:
    """Return the family by a model's name alone: `us.anthropic.claude-opus-5` is claude."""
    families = set(_families_named(name))
    return families.pop() if len(families) == 1 else UNKNOWN


def families_of(names: Iterable[str], table: Table | None = None) -> tuple[str, ...]:
    """
    Return the families of models, given by our names or an account's, in order and each once.

    Where the table and a model's name tell different families, both are returned.
    """
    return tuple(dict.fromkeys(family for name in names for family in _of_one(name, table)))


def program_families(program: str, given: str | None, reported: Iterable[str]) -> tuple[str, ...]:
    """Return the families of a program's models: of the one it was asked to use, and of those it reported."""
    fixed = _PROGRAMS.get(program)
    families = dict.fromkeys(find_family(name) for name in (given, *reported) if name)
    if fixed is None:
        return tuple(families) or (UNKNOWN,)
    # These two reach their own vendor's models, by whatever name; another family that they report counts too.
    return tuple(dict.fromkeys((fixed, *(family for family in families if family != UNKNOWN))))


def family_said(word: str, table: Table) -> str | None:
    """
    Return the family a person means by a word: a family's own name, a vendor's, or a model's.

    An unknown word is None, since it would differ from every reviewer's family.
    """
    plain = _plain(word)
    if plain.startswith("scripted"):  # a script declares which family it plays
        return plain
    if plain in _NAMED or plain in {_plain(model.family) for model in table.models.values()}:
        return plain
    families = families_of((word,), table)
    return families[0] if len(families) == 1 and families[0] != UNKNOWN else None


def is_apart(candidate: ModelChoice, families: Collection[str]) -> bool:
    """Return whether a candidate is known to be of none of these families, by its table and by its names."""
    minds = {_plain(candidate.family), find_family(candidate.model), find_family(candidate.id)}
    if _plain(candidate.family) == UNKNOWN:
        return False
    return minds.isdisjoint(_plain(family) for family in families) and UNKNOWN not in families


def are_apart(family: str, families: Collection[str]) -> bool:
    """Return whether a family is known to be none of these."""
    plain = _plain(family)
    return UNKNOWN not in (plain, *families) and plain not in map(_plain, families)


def is_same_model(name: str, others: Iterable[str]) -> bool:
    """Return whether a model may be one of the others: one name begins with the other."""
    own = name.casefold().rpartition("/")[2]
    stems = (other.casefold().rpartition("/")[2] for other in others)
    return any(own.startswith(other) or other.startswith(own) for other in stems)


def _of_one(name: str, table: Table | None) -> Iterator[str]:
    by_table = _by_table(name, table) if table is not None else None
    by_name = find_family(name)
    if by_table is not None:
        yield by_table
    if by_table is None or (by_name != UNKNOWN and by_name != _plain(by_table)):
        yield by_name


def _by_table(name: str, table: Table) -> str | None:
    if (family := table.family(name)) is not None:
        return family
    families = {
        known.family for model, known in table.models.items() if any(at.id == name for at in table.places(model))
    }
    return families.pop() if len(families) == 1 else None


def _families_named(name: str) -> Iterator[str]:
    for piece in _PIECES.split(name.casefold()):
        if _O_SERIES.match(piece):
            yield "gpt"
        yield from (family for word, family in _BEGINNINGS if _begins(piece, word))


def _begins(piece: str, word: str) -> bool:
    """Return whether a name begins with a family's word: `phi-4` and `phi4` with `phi`, `philosopher` not."""
    return piece.startswith(word) and not piece[len(word) : len(word) + 1].isalpha()


def _plain(family: str) -> str:
    """Return one word for one family, whatever a table calls it."""
    word = family.strip().casefold()
    return _VENDORS.get(word, word)
