"""
Keys taken out of whatever a program says, after it is decoded: JSON has more than one way to write a key.
"""

import dataclasses
import re
from collections.abc import Iterable
from typing import TypeVar

from pydantic import BaseModel

T = TypeVar("T")

_LEAST_SECRET = 6
"""Characters; what is shorter is no key, and would spoil whatever it is taken out of."""
_PLACEHOLDER = "[key]"


class Redaction:
    def __init__(self, secrets: Iterable[str]) -> None:
        # White space between any two characters: a key that was broken over two lines is one all the same.
        words = [r"\s*".join(map(re.escape, secret)) for secret in secrets if len(secret) >= _LEAST_SECRET]
        self._keys = re.compile("|".join(words)) if words else None

    def text(self, text: str) -> str:
        return text if self._keys is None else self._keys.sub(_PLACEHOLDER, text)

    def of(self, value: T) -> T:
        """The same value, whatever it is made of, without keys in any of its texts."""
        return value if self._keys is None else self._of(value)  # type: ignore[return-value]  # of the same type

    def _of(self, value: object) -> object:
        match value:
            case str():
                return self.text(value)
            case dict():
                return {self._of(key): self._of(each) for key, each in value.items()}
            case list() | tuple():
                return type(value)(self._of(each) for each in value)
            case BaseModel():
                return value.model_copy(update={name: self._of(each) for name, each in value})
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value)]
            return dataclasses.replace(value, **{name: self._of(getattr(value, name)) for name in names})
        return value
