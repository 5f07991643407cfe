"""`conflict-marker`: lines that a merge left behind. In strings, in tests and in texts on merging they may be meant."""

import re
from collections.abc import Iterator

from forgepool.supervisor.findings import ScanFinding, Weight
from forgepool.supervisor.gate_file.test_paths import is_test_path
from forgepool.supervisor.scans.source.grammar import SourceText
from forgepool.supervisor.scans.subject import Subject, finding

RULE = "conflict-marker"

_MARKER = re.compile(r"(?:<{7}|>{7}|\|{7})(?: \S.*)?")
_PROSE = (".md", ".markdown", ".rst", ".txt", ".adoc", ".patch", ".diff", ".orig")


def scan_markers(subject: Subject, sources: tuple[SourceText, ...]) -> Iterator[ScanFinding]:
    """In every file, whatever its language."""
    known = {source.file.path: source for source in sources}
    for file in subject.read:
        source = known.get(file.path)
        for line in file.added:
            if line.text[:1] in "<>|" and _MARKER.fullmatch(line.text[:500]):
                weight = _weight(file.path, source, line.number)
                said = "this is a merge conflict marker; resolve the conflict and remove its markers"
                yield finding(RULE, weight, said, file.path, line.number, line.text)


def _weight(path: str, source: SourceText | None, number: int) -> Weight:
    if (
        source is not None
        and source.language is not None
        and any(each.line == number for each in source.remarks if each.string)
    ):
        return "note"
    if is_test_path(path) or path.lower().endswith(_PROSE):
        return "attention"
    return "blocks"
