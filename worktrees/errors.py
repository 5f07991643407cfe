"""The base classes of errors that end a command with one sentence, in every package."""

import re

_LONG_WORD = re.compile(r"(\S{100})\S{61,}(\S{40})")


def cut_long_words(sentence: str) -> str:
    """Leave out the middle of words longer than 200 characters: values that nobody wrote to be read."""
    return _LONG_WORD.sub(r"\1...\2", sentence)


class UserError(Exception):
    """A request that cannot be carried out as given; exit status 2. The text says what is wrong and what to do."""


class InfrastructureError(Exception):
    """A failing machine, repository or service; exit status 3. The text says which, and what to do."""
