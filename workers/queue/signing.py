"""
Signatures of messages: only a process that has the fleet's key can give work, or answer it.

With `FORGEPOOL_FLEET_KEY`, every request, answer, note and shared result has an HMAC-SHA256 in front. It is made of the
bytes and of their place: the job, stream or key that they are written to. So none passes at another place: a check's
request is no landing's, and an answer to one run is none to another. Leases, workers' presence and a wished profile
are not signed. A stranger in Redis can delay work with them, as he can by deleting it.

A signed message can be copied and sent again. These bound what that does:

- a request carries its id and token: while its lease, fence or done mark stands, a second delivery does nothing;
- it carries the time by which it must begin, and is stale an hour after it was sent, unless its run is at work;
- should Redis lose the marks before that, its effect is still made once: the candidate's ref is created once, and
  the target moves by compare-and-swap, with a marker;
- an answer counts only while its id and token are owed one;
- the key of an answer about paths names its question, which is a random number.

Without a key, messages are plain, and a signed one is refused: its reader cannot know who wrote it.
"""

import hashlib
import hmac
import json
import re

from forgepool.workers.schema.settings import Settings

_DIGITS = hashlib.sha256().digest_size * 2
_NAME = re.compile(r"[\w.@:-]{1,200}", re.ASCII)
_SET = "set FORGEPOOL_FLEET_KEY to the same key on every host"


class NotSigned(ValueError):
    """A message is not signed as this process requires; one sentence. Its text proves nothing."""

    def __init__(self, why: str, text: str) -> None:
        super().__init__(why)
        self.text = text

    def name(self, *fields: str) -> str:
        """Return the first of these fields that the text has as a plain name, to be shown and no more; else ''."""
        try:
            found = json.loads(self.text)
        except (ValueError, RecursionError):
            return ""
        names = (found.get(field) for field in fields) if isinstance(found, dict) else ()
        return next((name for name in names if isinstance(name, str) and _NAME.fullmatch(name)), "")


def sign(text: str, place: str) -> str:
    """Return the text as it is written to that place: with a signature in front where this process has a key."""
    key = _key()
    return text if key is None else f"{_signature(key, text, place)} {text}"


def verify(written: str, place: str) -> str:
    """
    Return the text of what was read at that place.

    Raises:
        NotSigned: it has no signature, or another one than this process requires.
    """
    key = _key()
    signature, space, text = written[:_DIGITS], written[_DIGITS : _DIGITS + 1], written[_DIGITS + 1 :]
    if space != " " or written.startswith("{"):
        if key is None:
            return written
        raise NotSigned(f"it is not signed; {_SET}", written)
    if key is None:
        # Shown beside the name of its sender, and on another host.
        raise NotSigned(f"it is signed, and host {Settings().host} has no key; {_SET}", text)
    if not hmac.compare_digest(signature.encode(), _signature(key, text, place).encode()):
        raise NotSigned(f"it is signed with another key, or was changed; {_SET}", text)
    return text


def _signature(key: bytes, text: str, place: str) -> str:
    return hmac.new(key, f"{place}\0{text}".encode(errors="surrogatepass"), hashlib.sha256).hexdigest()


def _key() -> bytes | None:
    key = Settings().fleet_key
    return None if key is None else key.get_secret_value().encode()
