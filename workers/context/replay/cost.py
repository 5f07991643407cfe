"""
The cost of a conversation at a provider that caches prompts: tokens that are fresh, written or read.

A cache holds the prefixes that end with an earlier request, the system prompt or a mark; an automatic cache holds every
prefix. A request reads its longest cached prefix and writes the rest. Vendors' limits on marks and the least size worth
caching are not modelled.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field

from forgepool.workers.schema.documents import load, read_text
from forgepool.workers.schema.orders import Message

CHARACTERS_PER_TOKEN = 4.0
PER_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """USD per million tokens."""

    name: str
    fresh: float
    written: float
    """Tokens written to the cache."""
    cached: float
    """Tokens read from the cache."""
    output: float
    automatic: bool = False
    """The cache holds every prefix, not only marked ones."""


ANTHROPIC = Prices(name="anthropic", fresh=3.0, written=3.75, cached=0.3, output=15.0)
"""Writing costs a quarter more than fresh input, reading a tenth of it."""
OPENAI = Prices(name="openai", fresh=3.0, written=3.0, cached=0.3, output=15.0, automatic=True)
"""Writing costs nothing extra. The level is that of ANTHROPIC, so that columns compare."""


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a request. Requests share a prefix as far as the keys of their blocks agree."""

    key: int
    characters: int
    mark: bool = False
    """The cache holds the prefix that ends here as well."""


@dataclass(slots=True, kw_only=True)
class ReplayBill:
    """The bill of one or several conversations. Tokens may be fractions: they are characters divided by four."""

    fresh: float = 0.0
    written: float = 0.0
    cached: float = 0.0
    output: float = 0.0
    calls: int = 0
    """Calls of the agent's model."""
    peak: float = 0.0
    """The largest request; for several conversations, the mean of their largest."""
    prompts: float = 0.0
    """The tokens of all requests of the agent."""

    def cost_usd(self, prices: Prices) -> float:
        spent = self.fresh * prices.fresh + self.written * prices.written + self.cached * prices.cached
        return (spent + self.output * prices.output) / PER_MILLION

    @property
    def hit_rate(self) -> float:
        """Return the share of the input read from the cache, 0 to 1."""
        input_tokens = self.fresh + self.written + self.cached
        return self.cached / input_tokens if input_tokens else 0.0

    @property
    def mean(self) -> float:
        return self.prompts / self.calls if self.calls else 0.0


def total(bills: Iterable[ReplayBill]) -> ReplayBill:
    found = ReplayBill()
    peaks = []
    for bill in bills:
        found.fresh += bill.fresh
        found.written += bill.written
        found.cached += bill.cached
        found.output += bill.output
        found.calls += bill.calls
        found.prompts += bill.prompts
        peaks.append(bill.peak)
    found.peak = sum(peaks) / len(peaks) if peaks else 0.0
    return found


@dataclass(slots=True, kw_only=True)
class Cashier:
    """
    Bills a conversation's requests. A request grows by `add` and is billed by `ask`; `begin` starts a different one.

    So a conversation that only grows takes no more time than its new blocks.
    """

    system_characters: int
    automatic: bool = False
    messages_cached: bool = True
    """With False only the system prompt is cached."""
    bill: ReplayBill = field(default_factory=ReplayBill)
    _held: set[int] = field(default_factory=set)
    """The cached prefixes, as hashes of their keys."""
    _system_held: bool = False
    _chain: int = 0
    _size: float = 0.0
    _read: float = 0.0
    """Tokens of the request's longest cached prefix."""
    _ends: list[int] = field(default_factory=list)
    """Prefixes of the request to be cached."""

    def __post_init__(self) -> None:
        self.begin()

    @property
    def prompt_tokens(self) -> float:
        return self._size

    def begin(self) -> None:
        self._chain, self._size, self._ends = 0, tokens(self.system_characters), []
        self._read = self._size if self._system_held else 0.0

    def forget(self) -> None:
        """Empty the cache and begin a request."""
        self._held.clear()
        self._system_held = False
        self.begin()

    def add(self, block: Block) -> None:
        self._chain = hash((self._chain, block.key))
        self._size += tokens(block.characters)
        if self._chain in self._held:
            self._read = self._size
        if block.mark or self.automatic:
            self._ends.append(self._chain)

    def ask(self, output_characters: int) -> None:
        """Bill the request as it stands, and its answer."""
        self._charge_input()
        self.bill.output += tokens(output_characters)
        self.bill.calls += 1
        self.bill.prompts += self._size
        self.bill.peak = max(self.bill.peak, self._size)

    def aside(self, *, live: bool, characters: int, output_characters: int) -> None:
        """
        Bill a request outside the conversation; a `live` one follows the current request and reads what is cached of
        it.

        It is billed at the same prices and writes nothing.
        """
        if live:
            self.bill.cached += self._read
            self.bill.fresh += self._size - self._read
        self.bill.fresh += tokens(characters)
        self.bill.output += tokens(output_characters)

    def _charge_input(self) -> None:
        system = tokens(self.system_characters)
        if self.messages_cached:
            self.bill.cached += self._read
            self.bill.written += self._size - self._read
            self._held.update([*self._ends, self._chain])
            self._read = self._size
        else:
            self.bill.fresh += self._size - system
            if self._system_held:
                self.bill.cached += system
            else:
                self.bill.written += system
        self._ends = []
        self._system_held = True


def tokens(characters: float) -> float:
    return characters / CHARACTERS_PER_TOKEN


_MOST = 1_000_000
LISTS = {each.name: each for each in (ANTHROPIC, OPENAI)}


class _File(Message):
    """USD per million tokens."""

    fresh: float = Field(gt=0, le=_MOST)
    written: float = Field(gt=0, le=_MOST)
    cached: float = Field(ge=0, le=_MOST)
    output: float = Field(gt=0, le=_MOST)
    automatic: bool = False


def prices(name: str) -> Prices:
    """
    Return a list of prices by its name, or from a YAML file with `fresh`, `written`, `cached` and `output`.

    Raises:
        DocumentWrong: there is no such file, or it is no list of prices.
    """
    if name in LISTS:
        return LISTS[name]
    return Prices(name=name, **load(read_text(Path(name), name), name, _File).model_dump())
