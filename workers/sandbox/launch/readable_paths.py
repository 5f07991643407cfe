"""
What every confined command may read of the host: its programs and libraries, and of `/etc` what tells of nobody.
"""

import contextlib
import functools
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store")
PROCESSORS = "/sys/devices/system/cpu"
"""How many there are, and what they can do: build tools ask."""
_ETC = (
    *("alternatives", "ca-certificates.conf", "crypto-policies", "debian_version", "fonts", "gai.conf", "host.conf"),
    *("inputrc", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "localtime", "lsb-release", "magic"),
    *("mime.types", "os-release", "pki", "protocols", "redhat-release", "services", "ssl", "timezone"),
    # Languages whose libraries below /usr lead here.
    *("R", "ghc", "gradle", "maven", "mono", "perl", "php", "texmf"),
)
_ETC_BEGINNINGS = ("ImageMagick-", "java", "lua")
ASKED_ETC = ("/etc/python3", *(f"/etc/python3.{minor}" for minor in range(8, 20)))
"""What libraries below /usr link to, and do without where it is not there; but not where it is and cannot be read."""
WRITTEN_ETC = ("passwd", "group", "hosts", "nsswitch.conf", "resolv.conf")
"""Written anew for each command under bubblewrap. The fallback's commands read the host's."""

_TOOLCHAINS = {
    "RUSTUP_HOME": ".rustup",
    "PYENV_ROOT": ".pyenv",
    "RBENV_ROOT": ".rbenv",
    "NODENV_ROOT": ".nodenv",
    "GOENV_ROOT": ".goenv",
    "NVM_DIR": ".nvm",
    "VOLTA_HOME": ".volta",
    "ASDF_DATA_DIR": ".asdf",
    "MISE_DATA_DIR": ".local/share/mise",
    "SDKMAN_DIR": ".sdkman",
    "ELAN_HOME": ".elan",
    "DOTNET_ROOT": ".dotnet",
    "JAVA_HOME": None,
    "GOROOT": None,
    "CONDA_PREFIX": None,
}
"""Variables that lead programs to the rest of themselves, and where they look below the home folder without them."""
_PROGRAMS = ("bin", "sbin", "shims", "condabin")
_INSTALLED = ("lib", "lib64", "libexec", "include", "pyvenv.cfg")
"""One of these beside `bin` makes a folder an installation, all of which its programs may need."""
_NPM = "node_modules"


@functools.cache
def etc() -> tuple[Path, ...]:
    """What is there of `/etc` for every command; without what is written anew."""
    named = sorted(entry.name for entry in Path("/etc").iterdir())
    return tuple(Path("/etc", name) for name in named if name in _ETC or name.startswith(_ETC_BEGINNINGS))


def toolchains(lent: Mapping[str, str]) -> dict[str, Path]:
    """
    Folders that programs on the person's PATH find by a variable, or in the home folder, which commands do not see.

    `lent` is the host's environment, not a task's: nobody else says what may be read.
    """
    there: dict[str, Path] = {}
    for name, usual in _TOOLCHAINS.items():
        folder = Path(lent[name]) if name in lent else Path.home() / usual if usual else None
        if folder is not None and folder.is_absolute() and _is_folder(folder) and not _is_above_home(folder):
            there[name] = folder
    return there


def toolchain_folders(found: Mapping[str, Path]) -> tuple[Path, ...]:
    """As they are named and as they really are: those that lie outside the system's own."""
    both = dict.fromkeys(path for each in found.values() for path in (each, _real(each)))
    return tuple(path for path in both if not _is_system(path))


def tool_folders(search_path: str) -> tuple[Path, ...]:
    """
    The folders outside the system's own that hold the programs of a PATH and what these need, and files that links
    among them lead to; as they are named, and as they really are.

    Never the person's home or a folder above it; of the folders in it that hold more than an installation
    (`~/.local`, `~/.cargo`) the programs alone, and where their links lead.
    """
    entries = tuple((each, _changed(each)) for each in search_path.split(os.pathsep) if each.startswith("/"))
    there = [path for path in _found(entries) if os.access(path, os.F_OK)]  # never raises, as `exists` does
    return tuple(outermost(there))


def outermost(paths: Iterable[Path]) -> list[Path]:
    """Those that do not lie in another one of them."""
    kept: list[Path] = []
    for path in sorted(set(paths)):
        if not kept or not path.is_relative_to(kept[-1]):
            kept.append(path)
    return kept


@functools.lru_cache(maxsize=64)
def _found(entries: tuple[tuple[str, int], ...]) -> tuple[Path, ...]:
    """Looked for again when a folder of the PATH has changed: a look takes longer than starting the command."""
    found: dict[Path, None] = {}
    for entry in (Path(name) for name, _ in entries):
        with contextlib.suppress(PermissionError):  # others' folders on a PATH that was handed on
            for path in (*_of_entry(entry), *_links_from(entry)):
                found.setdefault(path)
    return tuple(path for path in found if not _is_system(path) and not _is_above_home(path))


def _changed(entry: str) -> int:
    try:
        return Path(entry).stat().st_mtime_ns
    except OSError:
        return 0


def _of_entry(entry: Path) -> Iterator[Path]:
    """The folder as it is named and as it really is, since programs may ask for either."""
    for each in dict.fromkeys((entry, _real(entry))):
        yield from _installation(each)


def _installation(programs: Path) -> tuple[Path, ...]:
    if not _is_folder(programs) or _is_system(programs):
        return ()
    above = programs.parent
    if programs.name == ".bin" and above.name == _NPM:  # what it links to lies beside it
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
    return tuple(folder for home in homes for folder in _of_entry(Path(home)))


def _links_from(entry: Path) -> tuple[Path, ...]:
    """Where the programs of a folder that is not an installation really lie."""
    if _is_system(entry) or not _is_folder(entry):
        return ()
    targets = {_real(each) for each in entry.iterdir() if each.is_symlink()}
    return tuple(path for target in sorted(targets) if target.parent != entry for path in _behind_link(target))


def _behind_link(program: Path) -> tuple[Path, ...]:
    """Of a folder that lies right in the person's home (`~/Documents`, `~/.ssh`) the program alone."""
    if _NPM in program.parts:
        return (Path(*program.parts[: program.parts.index(_NPM) + 1]),)
    home = _real(Path.home())
    if program.parent.parent == home or _is_above_home(program.parent):
        return (program,)
    return _installation(program.parent)


def _is_private(folder: Path) -> bool:
    home = _real(Path.home())
    return _is_above_home(folder) or _real(folder) in (home / ".local", home / ".cargo")


def _is_above_home(folder: Path) -> bool:
    return _real(Path.home()).is_relative_to(_real(folder))


def _is_system(folder: Path) -> bool:
    return any(folder.is_relative_to(each) for each in SYSTEM)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except PermissionError:  # below somebody else's home
        return False


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
