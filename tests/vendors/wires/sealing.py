"""Seals for thinking and reasoning, which only the vendor may write, so that a changed echo is detected."""

import hashlib


def seal(model: str, text: str) -> str:
    return "sealed" + hashlib.sha256(f"{model}\0{text}".encode()).hexdigest()[:40]
