"""
Finding `file-size`: a file so large that it should not enter the history, whoever adds it.

A commit that has landed stays in every clone. So the files of all commits that would land are weighed, also of those
that a later commit of the branch deletes again.
"""

from collections.abc import Iterator

from forgepool.supervisor.findings import ScanFinding
from forgepool.supervisor.scans.grants import is_granted
from forgepool.supervisor.scans.subject import Subject, finding

RULE = "file-size"
_MEGABYTE = 1_000_000
_SUBMODULE = "160000"


def scan_sizes(subject: Subject) -> Iterator[ScanFinding]:
    """Findings `file-size`: they block, for agents and people alike."""
    known = {file.old_id for file in subject.files}
    here = {file.id: file.path for file in subject.files if file.id.strip("0") and file.mode != _SUBMODULE}
    # A file that is renamed, or only changes its mode, was in the target before.
    here = {blob: path for blob, path in here.items() if blob not in known}
    paths = _brought(subject) | here
    for blob, size in _sizes(subject, paths):
        if size > subject.max_file_mb * _MEGABYTE and not is_granted(subject, paths[blob]):
            yield finding(RULE, "blocks", _said(size, subject.max_file_mb, is_there=blob in here), paths[blob])


def _said(size: int, limit: float, *, is_there: bool) -> str:
    keep_out = "keep it out of git (Git LFS, for instance)"
    if not is_there:
        keep_out = "an earlier commit of the branch adds it: take it out of that commit, or land by squash"
    weight = f"the file has {size / _MEGABYTE:.1f} MB, and the limit is {limit:g} MB"
    return f"{weight}; {keep_out}, or raise `scans: max_file_mb` in the target's forgepool.yaml"


def _brought(subject: Subject) -> dict[str, str]:
    """The objects in the commits that would land, each with a path at which it lies."""
    if subject.commit is None or not subject.commit.strip("0"):
        return {}
    said = subject.git.text("rev-list", "--objects", subject.commit, f"^{subject.base}").splitlines()
    return {line[: line.index(" ")]: line[line.index(" ") + 1 :] for line in said if " " in line}


def _sizes(subject: Subject, blobs: dict[str, str]) -> Iterator[tuple[str, int]]:
    asked = "".join(f"{blob}\n" for blob in blobs).encode()
    said = subject.git.text("cat-file", "--batch-check=%(objecttype) %(objectname) %(objectsize)", stdin=asked)
    for line in said.splitlines():
        kind, name, size = (*line.split(), "")[:3]
        if kind == "blob":
            yield name, int(size)
