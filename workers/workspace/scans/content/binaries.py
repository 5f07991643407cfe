"""
`binary`: files that no diff shows and that may run: bytecode, native code, archives, and pickles that call something.

A file is known by its content, whatever its name. Its name counts only for a file that is no text and whose content
says nothing. Pictures, fonts, documents and data are not looked at.
"""

import bz2
import lzma
import pickletools
import re
import zlib
from collections.abc import Callable, Iterator
from itertools import islice

from forgepool.workers.workspace.scans.findings import ScanFinding, Weight
from forgepool.workers.workspace.scans.languages.suite import beside_tests, name_set
from forgepool.workers.workspace.scans.subject import Subject, finding, is_granted
from forgepool.worktrees.commits.diff import MOST_BYTES, FileDiff, contents

RULE = "binary"
_RUNS = (
    (re.compile(rb"\x7fELF|\xfe\xed\xfa[\xce\xcf]|[\xce\xcf]\xfa\xed\xfe|!<arch>\n|BC\xc0\xde"), "native code"),
    (re.compile(rb"\xca\xfe\xba\xbe|dex\n\d"), "bytecode of Java, or native code"),
    (re.compile(rb"\0asm"), "WebAssembly"),
    (re.compile(rb"(?s).[\x0b-\x0e]\r\n|.\xf3\r\n"), "bytecode of Python"),
    (re.compile(rb"(?s)\x1bLua|FOR1....BEAM"), "bytecode"),
)
_LOADED = re.compile(r"\.(py[cod]|so(\.\d+)*|dll|dylib|class|jar|war|ear|whl|wasm|node|exe|jsc)$", re.IGNORECASE)
_ENTRY = re.compile(rb"(?s)PK\x01\x02.{24}(..)..{15}")
"""An entry in a zip's list of contents. Its name follows."""
_END_OF_ZIP, _FROM_END = b"PK\x05\x06", 65_557
_HELD = re.compile(r"\.(py[cod]|so(\.\d+)*|dll|dylib|class|wasm|node|exe)$|^META-INF/MANIFEST\.MF$|\.dist-info/WHEEL$")
_DOCUMENT = re.compile(r"\[Content_Types\]\.xml|mimetype|.*\.npy")
_MAY_RUN = re.compile(r"\.(py|js|mjs|cjs|sh|rb|pl|pkl)$")
_ARCHIVE = re.compile(rb"7z\xbc\xaf'\x1c|Rar!\x1a\x07|07070[127]|\xed\xab\xee\xdb|hsqs")
_MOST_MEMORY = 128 * 1024**2
"""The header of a packed file says how much memory it takes to unpack it."""
_PACKED = re.compile(r"\.(tar|tgz|tbz2?|txz|tzst|cpio|rpm)(\.\w+)?$", re.IGNORECASE)
_UNPACKS: dict[bytes, Callable[[bytes], bytes]] = {
    b"\x1f\x8b": lambda data: zlib.decompressobj(31).decompress(data, 512),
    b"BZh": lambda data: bz2.BZ2Decompressor().decompress(data, 512),
    b"\xfd7zXZ": lambda data: lzma.LZMADecompressor(memlimit=_MOST_MEMORY).decompress(data, 512),
}
_PICKLE = re.compile(r"\.(pkl|pickle|joblib|dill)$", re.IGNORECASE)
_CALLS = name_set("GLOBAL STACK_GLOBAL INST OBJ NEWOBJ NEWOBJ_EX REDUCE BUILD EXT1 EXT2 EXT4")
_MOST_CODES = 1_000_000
_UNPRINTED = re.compile(r"[\0-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_ODD = re.compile(r"\\x[0-9a-f]{2}|[\0-\x08\x0e-\x1a\x1c-\x1f]")


def scan_binaries(subject: Subject) -> Iterator[ScanFinding]:
    """Report `binary` for files that are new or have another content; also for generated and vendored ones."""
    files = [file for file in subject.files if file.path not in subject.made and _may_be_binary(file)]
    texts = contents(subject.git, [file.id for file in files], each=MOST_BYTES)
    for file in files:
        if (found := _judge(file, texts.get(file.id))) is not None and not is_granted(subject, file.path):
            weight, what = found
            yield finding(RULE, weight, f"this is {what}, which no diff shows", file.path)


def _may_be_binary(file: FileDiff) -> bool:
    if file.status == "D" or not file.mode.startswith("100"):
        return False
    if file.id == file.old_id:  # only a name that makes it loadable is new
        return _LOADED.search(file.path) is not None and _LOADED.search(file.old_path or file.path) is None
    if file.binary or file.cut or _LOADED.search(file.path) or _PICKLE.search(file.path):
        return True
    return any(_ODD.search(line.text) for line in file.added)


def _judge(file: FileDiff, data: bytes | None) -> tuple[Weight, str] | None:
    """Return the weight and the kind of a file's content, or None for one that may be there."""
    named = _LOADED.search(file.path) is not None
    if data is None:
        return ("blocks", "bytecode, native code or a package of it") if named else None
    what = next((what for begins, what in _RUNS if begins.match(data)), None)
    if what is None and (_is_program_of_windows(data) or (named and not is_text(data))):
        what = "bytecode, native code or a package of it"
    entries = None if what else _entries(data)
    if entries is not None and any(map(_HELD.search, entries)):
        what = "an archive with bytecode, native code or a package"
    if what is not None:
        return "blocks", what
    if _is_archive(file.path, data, entries):
        return "note" if beside_tests(file.path) else "attention", "an archive"
    if _calls_something(data, named=_PICKLE.search(file.path) is not None):
        return "attention", "a pickle that runs code when it is loaded"
    return None


def is_text(data: bytes) -> bool:
    """Tell whether the bytes are a text: UTF-8, UTF-16 or UTF-32 with its mark, or without control characters."""
    coding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    if data[:4] in (b"\xff\xfe\0\0", b"\0\0\xfe\xff"):
        coding = "utf-32"
    try:
        text = data.decode(coding)
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return _UNPRINTED.search(text) is None


def _is_program_of_windows(data: bytes) -> bool:
    at = int.from_bytes(data[60:64], "little")
    return data[:2] == b"MZ" and data[at : at + 4] == b"PE\0\0"


def _entries(data: bytes) -> list[str] | None:
    """Return the names in a zip, which may begin anywhere in a file; None where there is none."""
    if _END_OF_ZIP not in data[-_FROM_END:]:
        return None
    found = _ENTRY.finditer(data)
    ends = ((each.end(), int.from_bytes(each[1], "little")) for each in found)
    return [data[end : end + length].decode(errors="replace") for end, length in ends] or None


def _is_archive(path: str, data: bytes, entries: list[str] | None) -> bool:
    if entries is not None:
        is_document = any(map(_DOCUMENT.fullmatch, entries)) and not any(map(_MAY_RUN.search, entries))
        return not is_document
    if _ARCHIVE.match(data) or data[257:262] == b"ustar":
        return True
    if _PACKED.search(path) and not is_text(data):
        return True
    return any(
        data.startswith(begin) and _unpacked(unpack, data)[257:262] == b"ustar" for begin, unpack in _UNPACKS.items()
    )


def _unpacked(unpack: Callable[[bytes], bytes], data: bytes) -> bytes:
    try:
        return unpack(data)
    except (zlib.error, lzma.LZMAError, OSError, ValueError, EOFError):
        return b""


def _calls_something(data: bytes, *, named: bool) -> bool:
    """Tell whether a pickle imports or calls something. Numbers, texts and their collections need no call."""
    if not named and not re.match(rb"\x80[\x02-\x05]", data):
        return False
    count = 0
    try:
        for code, _, _ in islice(pickletools.genops(data), _MOST_CODES):
            count += 1
            if code.name in _CALLS:
                return True
    except (ValueError, IndexError, OverflowError):
        return named and not is_text(data)
    return count == _MOST_CODES
