"""The host's paths that every confined command may read: programs, libraries, and harmless parts of `/etc`."""

import contextlib
import functools
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store")
PROCESSORS = "/sys/devices/system/cpu"
"""The number and abilities of processors, which build tools ask for."""
_ETC = (
    *("alternatives", "ca-certificates.conf", "crypto-policies", "debian_version", "fonts", "gai.conf", "host.conf"),
    *("inputrc", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "localtime", "lsb-release", "magic"),
    *("mime.types", "os-release", "pki", "protocols", "redhat-release", "services", "ssl", "timezone"),
    # Languages whose libraries below /usr lead here.
    *("R", "ghc", "gradle", "maven", "mono", "perl", "php", "texmf"),
)
_ETC_BEGINNINGS = ("ImageMagick-", "java", "lua")
ASKED_ETC = ("/etc/python3", *(f"/etc/python3.{minor}" for minor in range(8, 20)))
"""Link targets of libraries below /usr. They may be missing, but not present and unreadable."""
WRITTEN_ETC = ("passwd", "group", "hosts", "nsswitch.conf", "resolv.conf")
"""Files that each command under bubblewrap gets its own version of. The fallback's commands read the host's."""

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
"""Variables that lead programs to their other files, and the default place below the home folder."""
_PROGRAMS = ("bin", "sbin", "shims", "condabin")
_INSTALLED = ("lib", "lib64", "libexec", "include", "pyvenv.cfg")
"""One of these beside `bin` marks an installation; all files there may be needed by its programs."""
_NPM = "node_modules"


@functools.cache
def etc() -> tuple[Path, ...]:
    """List the paths of `/etc` that every command may read, without those of `WRITTEN_ETC`."""
    named = sorted(entry.name for entry in Path("/etc").iterdir())
    return tuple(Path("/etc", name) for name in named if name in _ETC or name.startswith(_ETC_BEGINNINGS))


def toolchains(lent: Mapping[str, str]) -> dict[str, Path]:
    """
    Find the folders that programs on the user's PATH look up by a variable or in the home folder, which commands do not
    see.

    `lent` is the host's environment, not a task's: only the host says what may be read.
    """
    there: dict[str, Path] = {}
    for name, usual in _TOOLCHAINS.items():
        folder = Path(lent[name]) if name in lent else Path.home() / usual if usual else None
        if folder is not None and folder.is_absolute() and _is_folder(folder) and not _is_above_home(folder):
            there[name] = folder
    return there


def toolchain_folders(found: Mapping[str, Path]) -> tuple[Path, ...]:
    """List the folders outside the system's own, as named and as resolved."""
    both = dict.fromkeys(path for each in found.values() for path in (each, _real(each)))
    return tuple(path for path in both if not _is_system(path))


def tool_folders(search_path: str) -> tuple[Path, ...]:
    """
    List the non-system folders that hold a PATH's programs and what these need, and files their links lead to.

    Folders appear as named and as resolved. The user's home and the folders above it never do. A folder in the home
    that holds more than an installation (`~/.local`, `~/.cargo`) contributes only its programs and where their links
    lead.
    """
    entries = tuple((each, _changed(each)) for each in search_path.split(os.pathsep) if each.startswith("/"))
    there = [path for path in _found(entries) if os.access(path, os.F_OK)]  # never raises, as `exists` does
    return tuple(outermost(there))


def outermost(paths: Iterable[Path]) -> list[Path]:
    """Return the paths that do not lie inside another one."""
    kept: list[Path] = []
    for path in sorted(set(paths)):
        if not kept or not path.is_relative_to(kept[-1]):
            kept.append(path)
    return kept


@functools.lru_cache(maxsize=64)
def _found(entries: tuple[tuple[str, int], ...]) -> tuple[Path, ...]:
    """Look again only when a folder of the PATH has changed: a look takes longer than starting the command."""
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
    """Yield the folder as named and as resolved, since programs may ask for either."""
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
    """Find the Python that a virtual environment was made with; its programs lead there."""
    try:
        lines = configuration.read_text().splitlines()
    except (OSError, ValueError):
        return ()
    homes = [value.strip() for name, _, value in (line.partition("=") for line in lines) if name.strip() == "home"]
    return tuple(folder for home in homes for folder in _of_entry(Path(home)))


def _links_from(entry: Path) -> tuple[Path, ...]:
    """Find where the programs really are in a folder that is not an installation."""
    if _is_system(entry) or not _is_folder(entry):
        return ()
    targets = {_real(each) for each in entry.iterdir() if each.is_symlink()}
    return tuple(path for target in sorted(targets) if target.parent != entry for path in _behind_link(target))


def _behind_link(program: Path) -> tuple[Path, ...]:
    """
    Return a link's target. In a folder directly in the user's home (`~/Documents`, `~/.ssh`) that is the program alone.
    """
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
