"""
How a command ended, by what its tool says of it: ours and those whose recordings are read.

Only where a tool puts it, at the beginning or the end of a result: a program may print the same words anywhere.
"""

import re

_BEGINNING = re.compile(
    r"\s*(?:\[exit status (-?\d+)[,\]]|<returncode>(-?\d+)</returncode>|Exit code: (-?\d+)(?:\n|$)"
    r"|(?:Chunk ID: [^\n]*\n)?(?:Wall time: [^\n]*\n)?Process exited with code (-?\d+))"
)
_SIGNAL = re.compile(r"\[ended by signal (\d+),")
_ERROR = re.compile(r"(?:Error: )?Exit code (-?\d+)(?:\n|$)")
_END = re.compile(r"^\[(?:Command finished with|The command completed with) exit code (-?\d+)\.?\]", re.MULTILINE)
_FIELD = re.compile(r'"exit_code" ?: ?(-?\d+)')
_NEAR_END = 600


def exit_status(text: str, *, is_error: bool = False) -> int | None:
    """None where none is told; a signal's number is negative."""
    if found := _BEGINNING.match(text):
        return int(next(group for group in found.groups() if group is not None))
    if found := _SIGNAL.match(text):
        return -int(found[1])
    if is_error and (found := _ERROR.match(text)):
        return int(found[1])
    if text.startswith("{"):
        fields = _FIELD.findall(text[-_NEAR_END:])
        return int(fields[-1]) if fields else None
    ends = _END.findall(text[-_NEAR_END:])
    return int(ends[-1]) if ends else None
