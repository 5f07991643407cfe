"""Seals what only the vendor may have written (thinking, reasoning), so that a changed echo of it is found out."""

import hashlib


def seal(model: str, text: str) -> str:
    return "sealed" + hashlib.sha256(f"{model}\0{text}".encode()).hexdigest()[:40]
