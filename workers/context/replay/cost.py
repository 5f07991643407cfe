"""
What a conversation costs at a provider that caches prompts: each request's tokens as fresh, written or read.

A cache holds a prefix where an earlier request ended, where the system prompt ends, and where a mark was put. A request
reads the longest of these that it begins with, byte for byte, and writes the rest of itself. An automatic cache holds
every prefix. Marks of the vendor that reach back so many blocks, and the least size worth caching, are left out.
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
    """Into the cache."""
    cached: float
    """Read from it."""
    output: float
    automatic: bool = False
    """Whether the cache holds every prefix that was ever asked with, and not only those that were marked."""


ANTHROPIC = Prices(name="anthropic", fresh=3.0, written=3.75, cached=0.3, output=15.0)
"""What is written costs a quarter more than fresh input, what is read a tenth."""
OPENAI = Prices(name="openai", fresh=3.0, written=3.0, cached=0.3, output=15.0, automatic=True)
"""Writing costs nothing beside the input. At the same level, so that columns compare."""


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a request. Two requests share a prefix as far as their blocks' keys are the same."""

    key: int
    characters: int
    mark: bool = False
    """Whether the cache is to hold what ends here, beside the end of the request."""


@dataclass(slots=True, kw_only=True)
class ReplayBill:
    """Of one conversation, or of several added up. Tokens may be parts of one: characters are divided by four."""

    fresh: float = 0.0
    written: float = 0.0
    cached: float = 0.0
    output: float = 0.0
    calls: int = 0
    """Of the agent's model."""
    peak: float = 0.0
    """The largest request; of several conversations, the mean of theirs, weighed alike."""
    prompts: float = 0.0
    """All requests of the agent's, in tokens."""

    def cost_usd(self, prices: Prices) -> float:
        spent = self.fresh * prices.fresh + self.written * prices.written + self.cached * prices.cached
        return (spent + self.output * prices.output) / PER_MILLION

    @property
    def hit_rate(self) -> float:
        """The share of the input that was read from the cache, 0 to 1."""
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
    Takes a conversation's requests one after the other. A request grows by `add`, and is paid for by `ask`; `begin`
    starts it anew where something else is to be shown, and all of it is added again. So a conversation that only grows
    costs no more time than its new blocks.
    """

    system_characters: int
    automatic: bool = False
    messages_cached: bool = True
    """Without: only the system prompt is, and every request's messages are fresh."""
    bill: ReplayBill = field(default_factory=ReplayBill)
    _held: set[int] = field(default_factory=set)
    """The prefixes that the cache holds, by the hash of their keys."""
    _system_held: bool = False
    _chain: int = 0
    _size: float = 0.0
    _read: float = 0.0
    """Tokens of the request so far, and of its longest prefix that is held."""
    _ends: list[int] = field(default_factory=list)
    """Prefixes of the request that the cache will hold."""

    def __post_init__(self) -> None:
        self.begin()

    @property
    def prompt_tokens(self) -> float:
        return self._size

    def begin(self) -> None:
        self._chain, self._size, self._ends = 0, tokens(self.system_characters), []
        self._read = self._size if self._system_held else 0.0

    def forget(self) -> None:
        """What the cache held is gone; the request is to begin anew."""
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
        """The request as it stands now, and its answer."""
        self._charge_input()
        self.bill.output += tokens(output_characters)
        self.bill.calls += 1
        self.bill.prompts += self._size
        self.bill.peak = max(self.bill.peak, self._size)

    def aside(self, *, live: bool, characters: int, output_characters: int) -> None:
        """
        A question beside the conversation: of so many characters, and where it is `live`, after the request as it
        stands, of which it reads what the cache holds. It is paid for at the same prices, and writes nothing.
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
    The list of that name, else that of the file of that name: YAML with `fresh`, `written`, `cached` and `output`.

    Raises:
        DocumentWrong: there is no such file, or it is no list of prices.
    """
    if name in LISTS:
        return LISTS[name]
    found = load(read_text(Path(name), name), name, _File)
    return Prices(
        name=name,
        fresh=found.fresh,
        written=found.written,
        cached=found.cached,
        output=found.output,
        automatic=found.automatic,
    )
