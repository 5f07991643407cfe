"""Files that run and that no diff shows are known by their content, and pictures, texts and data are let through."""

import gzip
import importlib.util
import io
import lzma
import marshal
import pickle
import resource
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest
from changing import Changes

from forgepool.workers.workspace.scans.content.binaries import scan_binaries
from forgepool.workers.workspace.scans.findings import ScanFinding


class _Calls:
    """An object whose pickle calls a function when it is loaded."""

    def __reduce__(self) -> tuple[object, ...]:
        return print, ("x",)


def _zip(*names: str) -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as file:
        for name in names:
            file.writestr(name, "x = 1\n")
    return whole.getvalue()


def _tar(mode: str) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode=mode) as file:  # type: ignore[call-overload]
        file.addfile(tarfile.TarInfo("a.py"), io.BytesIO())
    return whole.getvalue()


_CODE = marshal.dumps(compile("x = 1\n", "a.py", "exec"))
_BYTECODE = importlib.util.MAGIC_NUMBER + bytes(12) + _CODE
_WINDOWS = b"MZ" + bytes(58) + (64).to_bytes(4, "little") + b"PE\0\0" + bytes(20)
_PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(40)
_DATA = {"rates": [1, 2.5, "three", (4,), {5}, None, True]}

FOUND: Mapping[str, tuple[str, bytes]] = {
    "src/app/__pycache__/core.cpython-311.pyc": ("blocks", _BYTECODE),
    "data/rates.bin": ("blocks", _BYTECODE),
    "data/old.bin": ("blocks", b"\x03\xf3\r\n" + bytes(4) + b"c" + bytes(8)),
    "bin/tool": ("blocks", b"\x7fELF\x02\x01\x01" + bytes(30)),
    "src/app/_fast.so": ("blocks", b"\x01\x02" + bytes(30)),
    "lib/libfast.so.1.2": ("blocks", b"\x01\x02" + bytes(30)),
    "lib/mac": ("blocks", b"\xcf\xfa\xed\xfe" + bytes(30)),
    "lib/libfast.x": ("blocks", b"!<arch>\n" + bytes(30)),
    "lib/fast.bc": ("blocks", b"BC\xc0\xde" + bytes(30)),
    "data/windows": ("blocks", _WINDOWS),
    "classes/A": ("blocks", b"\xca\xfe\xba\xbe\0\0\0\x34" + bytes(30)),
    "classes/a.data": ("blocks", b"dex\n035\0" + bytes(30)),
    "web/app.data": ("blocks", b"\0asm\x01\0\0\0"),
    "lua/a": ("blocks", b"\x1bLuaT\0" + bytes(9)),
    "beam/a": ("blocks", b"FOR1\0\0\0\x10BEAM" + bytes(9)),
    "dist/app-1-py3-none-any.zip": ("blocks", _zip("app.py", "app-1.dist-info/WHEEL")),
    "lib/app.x": ("blocks", _zip("META-INF/MANIFEST.MF")),
    "lib/held.zip": ("blocks", _zip("app/core.pyc")),
    "lib/app.jar": ("blocks", _zip("a.txt")),
    "lib/vendored.zip": ("attention", _zip("app.py")),
    "docs/picture.png": ("attention", _PICTURE + _zip("app.py")),
    "docs/letter.docx": ("attention", _zip("[Content_Types].xml", "app.py")),
    "lib/vendored.tar": ("attention", _tar("w")),
    "lib/vendored.data": ("attention", _tar("w:gz")),
    "lib/vendored.bz2": ("attention", _tar("w:bz2")),
    "lib/vendored.xz": ("attention", _tar("w:xz")),
    "lib/vendored.tar.zst": ("attention", b"\x28\xb5\x2f\xfd" + bytes(30)),
    "lib/vendored.7z": ("attention", b"7z\xbc\xaf'\x1c" + bytes(30)),
    "tests/data/sample.zip": ("note", _zip("app.py")),
    "data/model.dat": ("attention", pickle.dumps(_Calls())),
    "data/model.pkl": ("attention", pickle.dumps(_Calls(), protocol=0)),
    "data/torn.pkl": ("attention", pickle.dumps(_DATA)[:-9] + bytes(9)),
}
CLEAN: Mapping[str, bytes] = {
    "docs/plain.png": _PICTURE,
    "docs/font.ttf": b"\0\x01\0\0" + bytes(40),
    "docs/paper.pdf": b"%PDF-1.7\n\xff\xfe\0",
    "docs/sheet.xlsx": _zip("[Content_Types].xml", "xl/workbook.xml"),
    "docs/text.odt": _zip("mimetype", "content.xml"),
    "data/rates.npz": _zip("rates.npy"),
    "data/rates.pkl": pickle.dumps(_DATA),
    "data/rates.db": b"SQLite format 3\0" + bytes(40),
    "data/rates.json.gz": gzip.compress(b"{}"),
    "data/torn.gz": b"\x1f\x8b\x08\0torn",
    "data/wide.txt": "Gr\u00fc\u00dfe\n".encode("utf-16"),
    "data/latin.txt": "Gr\u00fc\u00dfe\n".encode("latin-1"),
    "lib/linked.so": b"INPUT(libfast.a)\n",
    "lib/wide.so": "INPUT(libfast.a)\n".encode("utf-16"),
    "src/escapes.py": b'MAGIC = b"\\x7fELF"\n',
}


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


@pytest.fixture(scope="module")
def changes(tmp_path_factory: pytest.TempPathFactory) -> Changes:
    return Changes(tmp_path_factory.mktemp("binaries"))


@pytest.fixture(scope="module")
def found(changes: Changes) -> Mapping[str, ScanFinding]:
    after = {path: _text(data) for path, (_, data) in FOUND.items()} | {
        path: _text(data) for path, data in CLEAN.items()
    }
    return {one.path: one for one in changes.found(scan_binaries, {"a": "1\n"}, after)}


@pytest.mark.parametrize("path", FOUND)
def test_a_file_that_may_run_is_found(found: Mapping[str, ScanFinding], path: str) -> None:
    assert (found[path].rule, found[path].weight) == ("binary", FOUND[path][0])


@pytest.mark.parametrize("path", CLEAN)
def test_texts_pictures_and_data_are_let_through(found: Mapping[str, ScanFinding], path: str) -> None:
    assert path not in found


def test_what_the_target_has_already_may_be_moved_and_deleted(changes: Changes) -> None:
    """A library that is renamed or removed is not new. One that gets another content, or a name to load, is."""
    old, new = _text(b"\x7fELF" + bytes(30)), _text(b"\x7fELF" + bytes(31))
    before = {"lib/a.so": old, "lib/b.so": old + "b", "data/c": _text(b"\x01\0" * 20)}
    moved = {"lib/a.so": None, "lib/b.so": None, "lib/new/b.so": old + "b"}
    assert changes.found(scan_binaries, before, moved) == []
    assert [one.path for one in changes.found(scan_binaries, before, {"lib/a.so": new})] == ["lib/a.so"]
    renamed = {"data/c": None, "data/c.so": before["data/c"]}
    assert [one.path for one in changes.found(scan_binaries, before, renamed)] == ["data/c.so"]


def test_a_large_library_is_known_by_its_name_or_its_beginning(changes: Changes) -> None:
    after = {"lib/large.so": "\0" * 3_000_000, "lib/large": _text(b"\x7fELF") + "\0" * 3_000_000}
    assert {one.path for one in changes.found(scan_binaries, {"a": "1\n"}, after)} == set(after)


def test_a_grant_lets_one_file_in(changes: Changes) -> None:
    after = {"lib/a.so": "\0\x01", "lib/b.so": "\0\x02"}
    assert [one.path for one in changes.found(scan_binaries, {"a": "1\n"}, after, grants=("lib/a.so",))] == ["lib/b.so"]


def test_generated_and_vendored_files_are_looked_at(changes: Changes, tmp_path: Path) -> None:
    before = {".gitattributes": "vendor/** linguist-vendored\n"}
    assert len(changes.found(scan_binaries, before, {"vendor/a.bin": _text(_BYTECODE)})) == 1


def test_a_packed_file_that_claims_to_need_much_memory_stops_nothing(changes: Changes) -> None:
    """Its header claims 4 GiB, and this process may have 1 GiB more."""
    packed = bytearray(lzma.compress(b"x", filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 4096}]))
    size = 4 * (packed[12] + 1)
    packed[16] = 40
    packed[8 + size : 12 + size] = zlib.crc32(bytes(packed[12 : 8 + size])).to_bytes(4, "little")
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = 4096 * int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (used + 1024**3, before[1]))
    try:
        assert changes.found(scan_binaries, {"a": "1\n"}, {"data/rates.bin": _text(bytes(packed))}) == []
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
