"""
The vendors' prompt caches, simulated on the bytes that were sent, with four characters to a token.

Anthropic's keeps the prefix up to each breakpoint, and finds one at most twenty blocks before a breakpoint. OpenAI's
finds the longest common prefix with any earlier prompt. Ours counts it in steps of 16 tokens without a least size, so
that small tests see it. Neither expires.
"""

import bisect
import hashlib
import json
import threading
from collections.abc import Iterator

from vendors.answers import Body, Tokens

_LOOKBACK_BLOCKS = 20
_STEP_TOKENS = 16


class PromptCaches:
    def __init__(self) -> None:
        self._kept: set[str] = set()
        self._prompts: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def marked(self, body: Body, output: int) -> Tokens:
        """Count a request with breakpoints (Anthropic's)."""
        blocks = list(_blocks(body))
        sizes, keys, total, digest = [0], [""], 0, hashlib.sha256(body["model"].encode())
        for text, _ in blocks:
            total += len(text)
            digest.update(text.encode())
            sizes.append(total)
            keys.append(digest.hexdigest())
        marks = {number: ttl for number, (_, ttl) in enumerate(blocks, start=1) if ttl}
        with self._lock:
            read = max((self._found(keys, mark) for mark in marks), default=0)
            self._kept.update(keys[mark] for mark in marks)
        written = max([read, *marks])
        hour = max([read, *(mark for mark, ttl in marks.items() if ttl == "1h")])
        return Tokens(
            input=total // 4,
            cached=sizes[read] // 4,
            written=sizes[written] // 4 - sizes[read] // 4,
            written_1h=sizes[hour] // 4 - sizes[read] // 4,
            output=output,
        )

    def _found(self, keys: list[str], mark: int) -> int:
        near = range(mark, max(0, mark - _LOOKBACK_BLOCKS), -1)
        return next((number for number in near if keys[number] in self._kept), 0)

    def common(self, body: Body, output: int) -> Tokens:
        """Count a request whose longest known prefix is found automatically (OpenAI's)."""
        prompt = "".join(json.dumps(body.get(part)) for part in ("tools", "instructions")) + "".join(
            json.dumps(item) for item in body.get("input") or body.get("messages") or ()
        )
        with self._lock:
            before = self._prompts.setdefault(str(body.get("model")), [])
            common = max((_common(prompt, earlier) for earlier in before), default=0)
            before.append(prompt)
        step = 4 * _STEP_TOKENS
        return Tokens(input=len(prompt) // 4, cached=common // step * step // 4, output=output)


def _common(one: str, other: str) -> int:
    return bisect.bisect_left(range(1, min(len(one), len(other)) + 1), True, key=lambda n: one[:n] != other[:n])


def _blocks(body: Body) -> Iterator[tuple[str, str]]:
    """Yield each block's bytes without its mark, and the mark's lifetime or nothing, in the order of caching."""
    system = body.get("system") or []
    for block in (body.get("tools") or []) + (_texts(system) if isinstance(system, str) else system):
        yield _split(block)
    for message in body["messages"]:
        content = message["content"]
        for block in _texts(content) if isinstance(content, str) else content:
            text, ttl = _split(block)
            yield message["role"] + text, ttl


def _texts(text: str) -> list[Body]:
    return [{"type": "text", "text": text}]


def _split(block: Body) -> tuple[str, str]:
    mark = block.get("cache_control")
    text = json.dumps({key: value for key, value in block.items() if key != "cache_control"})
    return text, (mark.get("ttl") or "5m") if mark else ""
