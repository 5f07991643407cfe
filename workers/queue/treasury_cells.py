"""
The cells of a treasury in Redis. A cell has, for one limit and period, the amounts of each run.

Each run writes its own whole amounts, as its journal has them: writing them again changes nothing. A reservation is the
same write, made only where the sum of all runs then fits. Redis may lose everything. The first run that notices begins
a new epoch. Nothing is reserved in it before all runs that were there have written their amounts, or were silent for
`LIFE_S`.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from forgepool.workers.queue.broker import Redis

LIFE_S = 30.0
"""Seconds for which a run is waited for that was there before."""
SETTLE_S = 3.0
"""Seconds that an epoch on a shared Redis is old before anything is reserved: each run looks more often than that."""
_KEPT_S = 40 * 24 * 3600
_EPOCH, _RUNS, _CELL = "forgepool:treasury:epoch", "forgepool:treasury:runs", "forgepool:treasury:cell"

_CLOCK = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""

_JOIN = (
    _CLOCK
    + """
local id = redis.call('HGET', KEYS[1], 'id')
if not id then
  id = ARGV[2]
  redis.call('HSET', KEYS[1], 'id', id, 'begun', now, 'settle', ARGV[3])
end
for i = 4, #ARGV do redis.call('ZADD', KEYS[2], 'NX', now, ARGV[i]) end
redis.call('ZADD', KEYS[2], now, ARGV[1])
return id
"""
)

_PUBLISH = (
    _CLOCK
    + """
if redis.call('HGET', KEYS[1], 'id') ~= ARGV[1] then return 0 end
local seen = redis.call('ZSCORE', KEYS[2], ARGV[2])
if seen and now - seen <= tonumber(ARGV[3]) and redis.call('SISMEMBER', KEYS[3], ARGV[2]) == 1 then return 1 end
redis.call('ZREM', KEYS[2], ARGV[2])
for i = 4, #KEYS do
  redis.call('HSET', KEYS[i], ARGV[2], ARGV[i])
  redis.call('EXPIRE', KEYS[i], tonumber(ARGV[#ARGV]))
end
return 1
"""
)

_WRITE = (
    _CLOCK
    + """
local run, life, kind = ARGV[2], tonumber(ARGV[3]), ARGV[4]
if redis.call('HGET', KEYS[1], 'id') ~= ARGV[1] then return {'lost'} end
redis.call('ZADD', KEYS[2], now, run)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - life)
local begun, settle = redis.call('HGET', KEYS[1], 'begun'), redis.call('HGET', KEYS[1], 'settle')
local open = now >= begun + settle
local members = redis.call('ZRANGE', KEYS[2], 0, -1)
for _, member in ipairs(members) do
  if member ~= run and redis.call('SISMEMBER', KEYS[3], member) == 0 then open = false end
end
local told, sums, fits = table.concat(members, '\\n'), {}, true
for i = 4, #KEYS do
  local at = 5 + (i - 4) * 8
  local sum = {0, 0, 0, 0}
  local fields = redis.call('HGETALL', KEYS[i])
  for f = 1, #fields, 2 do
    if fields[f] ~= run then
      local n = 0
      for amount in string.gmatch(fields[f + 1], '%d+') do
        n = n + 1
        sum[n] = sum[n] + tonumber(amount)
      end
    end
  end
  for n = 1, 4 do sums[#sums + 1] = string.format('%.0f', sum[n]) end
  for pair = 0, 1 do
    local cap, kept = tonumber(ARGV[at + 4 + 2 * pair]), tonumber(ARGV[at + 5 + 2 * pair])
    local orders = sum[1 + 2 * pair] + tonumber(ARGV[at + 2 * pair])
    local reviews = sum[2 + 2 * pair] + tonumber(ARGV[at + 1 + 2 * pair])
    if kind == 'order' then reviews = math.max(reviews, kept) end
    if cap >= 0 and orders + reviews > cap then fits = false end
  end
end
if kind ~= 'tell' then
  if not open then return {'shut', told, unpack(sums)} end
  if not fits then return {'full', told, unpack(sums)} end
end
for i = 4, #KEYS do
  local at = 5 + (i - 4) * 8
  redis.call('HSET', KEYS[i], run, table.concat({ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]}, ' '))
  redis.call('EXPIRE', KEYS[i], tonumber(ARGV[#ARGV]))
end
if kind == 'tell' then redis.call('SADD', KEYS[3], run) end
return {open and 'open' or 'shut', told, unpack(sums)}
"""
)

Amounts = tuple[int, int, int, int]
"""Millionths of a dollar of orders and of reviews, then tokens of both."""
WriteKind = Literal["tell", "order", "review"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellWrite:
    """The amounts that a run writes into one cell, and the limit on the sum of all runs."""

    cell: str
    mine: Amounts
    cap_usd: int | None = None
    kept_usd: int = 0
    """The part that only reviews may use."""
    cap_tokens: int | None = None
    kept_tokens: int = 0

    def arguments(self) -> tuple[int, ...]:
        """Return the amounts, then each cap (-1 for none) with its kept part."""
        usd, tokens = (-1 if cap is None else cap for cap in (self.cap_usd, self.cap_tokens))
        return (*self.mine, usd, self.kept_usd, tokens, self.kept_tokens)


@dataclass(frozen=True, slots=True)
class CellAnswer:
    """The answer to a write."""

    outcome: Literal["open", "shut", "full", "lost"]
    """`open` and, for what is only told, `shut`: it is written. `lost`: the epoch is another one by now."""
    others: tuple[Amounts, ...] = ()
    """By cell, the sum of all other runs."""
    present: tuple[str, ...] = ()
    """The runs that are there, to be expected again once Redis has lost them."""


def join_epoch(client: Redis, run: str, *, expected: Sequence[str], settle_s: float) -> str:
    """Return the epoch that Redis is in, or begin one. `expected` are runs that were there when it was last seen."""
    arguments = (run, secrets.token_hex(8), int(settle_s * 1000), *expected)
    return str(client.eval(_JOIN, 2, _EPOCH, _RUNS, *arguments))


def publish_amounts(
    client: Redis, epoch: str, run: str, amounts: Sequence[tuple[str, Amounts]], *, life_s: float
) -> None:
    """Write the amounts of a run that no process runs; nothing where a live one has written its own."""
    keys = (_EPOCH, _RUNS, _published(epoch), *(_cell(epoch, cell) for cell, _ in amounts))
    texts = [" ".join(map(str, each)) for _, each in amounts]
    client.eval(_PUBLISH, len(keys), *keys, epoch, run, int(life_s * 1000), *texts, _KEPT_S)


def write_amounts(
    client: Redis, epoch: str, run: str, kind: WriteKind, cells: Sequence[CellWrite], *, life_s: float
) -> CellAnswer:
    """Write the run's amounts: to tell them, or to reserve, which changes nothing unless all cells have room."""
    keys = (_EPOCH, _RUNS, _published(epoch), *(_cell(epoch, one.cell) for one in cells))
    arguments = [argument for one in cells for argument in one.arguments()]
    answer = cast(
        list[str], client.eval(_WRITE, len(keys), *keys, epoch, run, int(life_s * 1000), kind, *arguments, _KEPT_S)
    )
    if answer[0] == "lost":
        return CellAnswer("lost")
    sums = [int(each) for each in answer[2:]]
    others = tuple(cast(Amounts, tuple(sums[at : at + 4])) for at in range(0, len(sums), 4))
    return CellAnswer(cast(Literal["open", "shut", "full"], answer[0]), others, tuple(answer[1].split("\n")))


def leave_treasury(client: Redis, run: str) -> None:
    """Have no other run wait for this one; what it has written stays."""
    client.zrem(_RUNS, run)


def _published(epoch: str) -> str:
    return f"forgepool:treasury:told:{epoch}"


def _cell(epoch: str, cell: str) -> str:
    return f"{_CELL}:{epoch}:{cell}"
