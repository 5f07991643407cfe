"""
One JUnit XML document, as pytest, jest-junit, surefire, go-junit-report, cargo-nextest, unittest-xml-reporting and
others write it, read as the hostile input it is: no entities, no document type, bounds on everything.
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Literal

Outcome = Literal["passed", "failed", "skipped"]

_MOST_DEEP = 100
_MOST_ELEMENTS = 500_000
_MOST_CASES = 100_000
_MOST_ERROR_CHARACTERS = 2000
_MOST_ID_CHARACTERS = 500
_PIECE_BYTES = 64 * 1024
_ROOTS = ("testsuites", "testsuite")
_FAILED = ("failure", "error")
_SKIPPED = ("skipped", "ignored", "disabled")
_NOT_RUN = ("skipped", "disabled", "ignored", "notrun", "pending", "todo", "suppressed")
"""Words that some runners write into an attribute of the test instead."""


class UnreadableReport(Exception):
    """The document says nothing that can be used; the text goes on from the document's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JunitCase:
    """One `testcase` element."""

    id: str
    outcome: Outcome
    file: str
    seconds: float
    error: str


def read_junit(content: bytes, *, checkout: str = "") -> tuple[JunitCase, ...]:
    """
    Read every test of a document, in its order; a test named twice comes twice.

    `checkout` is the folder the command ran in: it is taken out of names, so that they are the same in another one.

    Raises:
        UnreadableReport: it is no such document, or larger than any real one.
    """
    from xml.etree.ElementTree import ParseError

    from defusedxml.common import DefusedXmlException  # type: ignore[import-untyped]  # brings no types
    from defusedxml.ElementTree import DefusedXMLParser  # type: ignore[import-untyped]  # brings no types

    reading = _Reading(checkout.rstrip("/") + "/" if checkout else "")
    parser = DefusedXMLParser(target=reading, forbid_dtd=True)
    try:
        for piece in _pieces(content):
            parser.feed(piece)
        parser.close()
    except DefusedXmlException as refused:
        raise UnreadableReport("declares a document type or entities, which no runner does") from refused
    except ParseError as wrong:
        raise UnreadableReport(f"is no XML, or not all of it: {wrong}") from wrong
    except (ValueError, LookupError) as wrong:
        raise UnreadableReport("is in an encoding that cannot be read; write UTF-8") from wrong
    return tuple(reading.told)


def _pieces(content: bytes) -> Iterator[bytes]:
    return (content[at : at + _PIECE_BYTES] for at in range(0, len(content), _PIECE_BYTES))


class _Reading:
    """The parser's callbacks. They build no tree, so that a document is never larger than its bytes."""

    def __init__(self, checkout: str) -> None:
        self.told: list[JunitCase] = []
        self._checkout = checkout
        self._open: list[str] = []
        self._suites: list[tuple[str, str]] = []
        self._case: JunitCase | None = None
        self._error: list[str] | None = None
        self._elements = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition("}")[2]
        self._elements += 1
        if not self._open and name not in _ROOTS:
            raise UnreadableReport(
                f"begins with <{to_line(name)[:40]}>; a JUnit report begins with <testsuites> or <testsuite>"
            )
        if len(self._open) >= _MOST_DEEP or self._elements > _MOST_ELEMENTS:
            raise UnreadableReport(f"nests more than {_MOST_DEEP} elements, or has more than {_MOST_ELEMENTS}")
        self._open.append(name)
        if name == "testsuite":
            self._suites.append((attributes.get("name", ""), attributes.get("file", "")))
        elif name == "testcase":
            self._case = self._begun(attributes)
        elif self._case is not None and self._open[-2] == "testcase":
            self._case = self._ended(self._case, name, attributes)

    def data(self, text: str) -> None:
        if self._error is not None and sum(map(len, self._error)) < _MOST_ERROR_CHARACTERS:
            self._error.append(text[:_MOST_ERROR_CHARACTERS])

    def end(self, _: str) -> None:
        name = self._open.pop()
        if name == "testsuite":
            self._suites.pop()
        elif name == "testcase" and self._case is not None:
            if len(self.told) >= _MOST_CASES:
                raise UnreadableReport(f"names more than {_MOST_CASES} tests")
            self.told.append(self._case)
            self._case = None
        elif name in _FAILED and self._case is not None and self._error is not None:
            text = "\n".join(filter(None, (self._case.error, "".join(self._error).strip())))
            self._case = replace(self._case, error=text[:_MOST_ERROR_CHARACTERS])
            self._error = None

    def close(self) -> None:
        return None

    def _begun(self, attributes: dict[str, str]) -> JunitCase:
        suite, suite_file = self._suites[-1] if self._suites else ("", "")
        file = self._local(attributes.get("file") or suite_file)
        group = self._local(attributes.get("classname") or ("" if file else suite))
        words = (attributes.get("status", ""), attributes.get("result", ""))
        return JunitCase(
            id=_bounded(_id(group, self._local(attributes.get("name", "")), file)),
            outcome="skipped" if any(word.lower() in _NOT_RUN for word in words) else "passed",
            file=to_line(file)[:_MOST_ID_CHARACTERS],
            seconds=_seconds(attributes.get("time", "")),
            error="",
        )

    def _ended(self, case: JunitCase, name: str, attributes: dict[str, str]) -> JunitCase:
        """`rerunFailure` and `flakyFailure` are no ends: the last run of the test is told by the others, or by none."""
        if name in _FAILED:
            self._error = []
            message = "\n".join(filter(None, (case.error, attributes.get("message", ""))))
            return replace(case, outcome="failed", error=message[:_MOST_ERROR_CHARACTERS])
        if name in _SKIPPED and case.outcome != "failed":
            return replace(case, outcome="skipped")
        return case

    def _local(self, text: str) -> str:
        return text.replace(self._checkout, "") if self._checkout else text


def _id(group: str, name: str, file: str) -> str:
    """pytest's own id where the group is the file's path with dots; what cannot be collected is its file."""
    if file.endswith(".py"):
        module = ".".join(PurePosixPath(file).with_suffix("").parts)
        if not group and name == module:
            return file
        if group == module or group.startswith(f"{module}."):
            return "::".join((file, *group.removeprefix(module).split(".")[1:], name))
    return "::".join(filter(None, (group or file, name)))


def _bounded(text: str) -> str:
    text = to_line(text)
    if len(text) <= _MOST_ID_CHARACTERS:
        return text
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:12]
    return f"{text[:_MOST_ID_CHARACTERS]}...{digest}"


def to_line(text: str) -> str:
    """On one line, and nothing in it that a terminal obeys."""
    return text if text.isprintable() else "".join(each if each.isprintable() else " " for each in text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text.replace(",", ""))
    except ValueError:
        return 0.0
    return seconds if math.isfinite(seconds) and seconds >= 0 else 0.0
