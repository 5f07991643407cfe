"""
What every confined command may read of the host: its programs and libraries, and of `/etc` what tells of nobody.
"""

import contextlib
import functools
import os
from collections.abc import Iterator
from pathlib import Path

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store")
ETC = (
    *("alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version", "fonts"),
    *("gai.conf", "host.conf", "inputrc", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "localtime"),
    *("magic", "mime.types", "os-release", "perl", "pki", "protocols", "redhat-release", "services", "ssl"),
    *("terminfo", "timezone", "java-11-openjdk", "java-17-openjdk", "java-21-openjdk", "maven", "lsb-release"),
)
"""Below /etc. Users, groups, hosts and name services are written anew for each command."""
_PROGRAMS = ("bin", "sbin", "shims", "condabin")
_INSTALLED = ("lib", "lib64", "libexec", "include", "pyvenv.cfg")
"""One of these beside `bin` makes a folder an installation, all of which its programs may need."""


def tool_folders(search_path: str) -> tuple[Path, ...]:
    """
    The folders outside the system's own that hold the programs of a PATH and what these need, as real paths.

    Never the person's home or a folder above it; of the folders in it that hold more than an installation
    (`~/.local`, `~/.cargo`) the programs alone, and where their links lead.
    """
    found: dict[Path, None] = {}
    for entry in [Path(each) for each in search_path.split(os.pathsep) if each.startswith("/")]:
        with contextlib.suppress(PermissionError):  # others' folders on a PATH that was handed on
            for folder in (*_of_entry(entry), *_links_from(entry)):
                found.setdefault(folder)
    return tuple(folder for folder in found if not _is_system(folder) and folder.exists())


def _of_entry(entry: Path) -> Iterator[Path]:
    """The folder as it is named and as it really is, since programs may ask for either."""
    for each in dict.fromkeys((entry, Path(os.path.realpath(entry)))):
        yield from _installation(each)


@functools.lru_cache(maxsize=256)
def _installation(programs: Path) -> tuple[Path, ...]:
    if not programs.is_dir() or _is_system(programs):
        return ()
    above = programs.parent
    if programs.name == ".bin":  # npm's: what it links to lies beside it
        return (above,)
    whole = programs.name in _PROGRAMS and any((above / each).exists() for each in _INSTALLED)
    base = _base_of(above / "pyvenv.cfg")
    return (*((above,) if whole and not _is_private(above) else (programs,)), *base)


def _base_of(configuration: Path) -> tuple[Path, ...]:
    """A virtual environment's programs lead to the Python it was made with."""
    try:
        lines = configuration.read_text().splitlines()
    except (OSError, ValueError):
        return ()
    homes = [value.strip() for name, _, value in (line.partition("=") for line in lines) if name.strip() == "home"]
    return tuple(folder for home in homes for folder in _installation(Path(home)))


@functools.lru_cache(maxsize=64)
def _links_from(entry: Path) -> tuple[Path, ...]:
    """Where the programs of a folder that is not an installation really lie."""
    if _is_system(entry) or not entry.is_dir():
        return ()
    targets = {Path(os.path.realpath(each)).parent for each in entry.iterdir() if each.is_symlink()}
    return tuple(folder for target in sorted(targets - {entry}) for folder in _installation(target))


def _is_private(folder: Path) -> bool:
    home = Path(os.path.realpath(Path.home()))
    real = Path(os.path.realpath(folder))
    return home.is_relative_to(real) or real in (home / ".local", home / ".cargo")


def _is_system(folder: Path) -> bool:
    return any(folder.is_relative_to(each) for each in SYSTEM)
