"""
Whose mind a model is: families, by the table of models and by the names that vendors give to theirs.

Work is reviewed by another family than those that had a hand in it, so whatever is not known is `unknown`, never a
guess, and where a table and a model's own name say two different things, both count. Pure.
"""

import re
from collections.abc import Collection, Iterable, Iterator

from forgepool.workers.llm.routing.router import ModelChoice
from forgepool.workers.llm.routing.table import Table
from forgepool.workers.schema.orders import CliProgram

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
"""What models' names begin with, by family."""
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
"""Words that a table may have for a family. Of a model's own name they say nothing: `openai/` is many a server's."""
_PROGRAMS: dict[CliProgram, str] = {"claude": "claude", "codex": "gpt"}


def find_family(name: str) -> str:
    """By a model's name alone, whoever sells it: `us.anthropic.claude-opus-5` and `openrouter/openai/gpt-6` tell."""
    found = set(_families_named(name))
    return found.pop() if len(found) == 1 else UNKNOWN


def families_of(names: Iterable[str], table: Table | None = None) -> tuple[str, ...]:
    """
    Of models by our names or an account's, in their order, each once; `unknown` for one that nothing tells of.

    Where the table has another word for a model than its name tells, both are among them.
    """
    found = (family for name in names for family in _of_one(name, table))
    return tuple(dict.fromkeys(found))


def program_families(program: CliProgram, given: str | None, told: Iterable[str]) -> tuple[str, ...]:
    """Of a program's models: `given` is what it was asked to use, `told` what it said it used."""
    names = [name for name in (given, *told) if name]
    fixed = _PROGRAMS.get(program)
    found = dict.fromkeys(find_family(name) for name in names)
    if fixed is None:
        return tuple(found) or (UNKNOWN,)
    # These two reach their own vendor's models, by whatever name; another's, where one is told, counts besides.
    return tuple(dict.fromkeys((fixed, *(family for family in found if family != UNKNOWN))))


def family_said(word: str, table: Table) -> str | None:
    """
    The family a person means by a word: a family's own name, a vendor's, or a model's. None where it is none of these:
    an unknown word would be apart from every reviewer.
    """
    plain = _plain(word)
    if plain.startswith("scripted"):  # scripts say themselves which family they play
        return plain
    if plain in _NAMED or plain in {_plain(model.family) for model in table.models.values()}:
        return plain
    told = families_of((word,), table)
    return told[0] if len(told) == 1 and told[0] != UNKNOWN else None


def is_apart(candidate: ModelChoice, families: Collection[str]) -> bool:
    """Whether a candidate is known to be of none of these families, by its table's word and by its names."""
    minds = {_plain(candidate.family), find_family(candidate.model), find_family(candidate.id)}
    if _plain(candidate.family) == UNKNOWN:
        return False
    return minds.isdisjoint(_plain(family) for family in families) and UNKNOWN not in families


def are_apart(one: str, families: Collection[str]) -> bool:
    """The same of a family by its word alone."""
    plain = _plain(one)
    return UNKNOWN not in (plain, *families) and plain not in {_plain(family) for family in families}


def is_same_model(name: str, others: Iterable[str]) -> bool:
    """Whether a model may be one of the others; a name that begins as another does counts as the same model."""
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
    found = {table.models[model].family for model in table.models if any(at.id == name for at in table.places(model))}
    return found.pop() if len(found) == 1 else None


def _families_named(name: str) -> Iterator[str]:
    for piece in _PIECES.split(name.casefold()):
        if _O_SERIES.match(piece):
            yield "gpt"
        yield from (family for word, family in _BEGINNINGS if _begins(piece, word))


def _begins(piece: str, word: str) -> bool:
    """`phi-4` and `phi4` begin with `phi`, `philosopher` does not."""
    return piece.startswith(word) and not piece[len(word) : len(word) + 1].isalpha()


def _plain(family: str) -> str:
    """One word for one family, whatever it is called in a table."""
    word = family.strip().casefold()
    return _VENDORS.get(word, word)
