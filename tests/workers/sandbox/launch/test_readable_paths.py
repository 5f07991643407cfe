"""Which of a person's folders commands may read: the programs on the PATH and what they need."""

import os
from pathlib import Path

import pytest

from forgepool.workers.sandbox.launch.readable_paths import etc, tool_folders, toolchain_folders, toolchains


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a person's home with a key in it."""
    folder = Path(os.path.realpath(tmp_path)) / "person"
    _file(folder / ".ssh" / "id_rsa")
    monkeypatch.setenv("HOME", str(folder))
    return folder


def _file(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    return path


def _link(path: Path, target: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def _found(*entries: Path) -> set[Path]:
    return set(tool_folders(":".join(map(str, entries))))


def test_an_installation_is_read_whole(home: Path) -> None:
    """Its programs need the files beside `bin`."""
    _file(home / "node-20" / "bin" / "node")
    _file(home / "node-20" / "lib" / "node_modules" / "npm" / "index.js")
    assert _found(home / "node-20" / "bin") == {home / "node-20"}


def test_of_folders_that_hold_more_the_programs_alone_are_read(home: Path) -> None:
    """`~/.local/bin` is beside other data, and `~/bin` beside the whole home."""
    for folder in (home, home / ".local", home / ".cargo"):
        _file(folder / "bin" / "tool")
        (folder / "lib").mkdir()
    found = _found(home / "bin", home / ".local" / "bin", home / ".cargo" / "bin")
    assert found == {home / "bin", home / ".local" / "bin", home / ".cargo" / "bin"}


@pytest.mark.parametrize("entry", [".", "..", ".bin", "../.."])
def test_a_path_that_leads_home_shows_no_home(home: Path, entry: str) -> None:
    """Folders above the home are not shown either. `~/.bin` is no folder of npm's."""
    _file(home / ".bin" / "tool")
    folder = Path(os.path.normpath(home / entry))
    assert not any(home.is_relative_to(each) for each in _found(folder))


def test_a_link_to_a_file_in_the_home_shows_that_file(home: Path) -> None:
    """The link leads to a script. The folder of keys around it is not shown."""
    _link(home / ".local" / "bin" / "one", _file(home / "one.sh"))
    _link(home / ".local" / "bin" / "two", _file(home / ".ssh" / "two.sh"))
    programs = home / ".local" / "bin"
    assert _found(programs) == {programs, home / "one.sh", home / ".ssh" / "two.sh"}


def test_a_link_into_an_installation_shows_it(home: Path) -> None:
    """pipx and uv put each program into its own environment, with a link on the PATH."""
    environment = home / ".local" / "share" / "pipx" / "venvs" / "tool"
    _file(home / "python" / "bin" / "python3")
    _file(home / "python" / "lib" / "os.py")
    _link(home / ".local" / "bin" / "tool", _file(environment / "bin" / "tool"))
    (environment / "pyvenv.cfg").write_text(f"home = {home}/python/bin\n")
    assert _found(home / ".local" / "bin") == {home / ".local" / "bin", environment, home / "python"}


def test_a_link_into_packages_of_npm_shows_these(home: Path) -> None:
    """A package's program needs the package and those beside it."""
    packages = home / ".local" / "lib" / "node_modules"
    _link(home / ".local" / "bin" / "tool", _file(packages / "tool" / "bin" / "cli.js"))
    assert packages in _found(home / ".local" / "bin")


def test_a_program_installed_later_is_found(home: Path) -> None:
    """A long-running worker finds it for the next command."""
    programs = home / ".local" / "bin"
    _file(programs / "old")
    assert _found(programs) == {programs}
    os.utime(programs, (1, 1))
    _found(programs)
    _link(programs / "new", _file(home / "tools" / "new-1" / "new"))
    assert home / "tools" / "new-1" in _found(programs)


def test_toolchains_are_found_where_their_programs_look(home: Path) -> None:
    """The person's variable counts first, then the home. A variable that leads to the home or nowhere shows nothing."""
    for name in (".rustup", "pyenv"):
        (home / name).mkdir()
    lent = {"PYENV_ROOT": str(home / "pyenv"), "JAVA_HOME": str(home), "GOROOT": "relative", "NVM_DIR": "/nowhere"}
    found = toolchains(lent)
    assert found == {"RUSTUP_HOME": home / ".rustup", "PYENV_ROOT": home / "pyenv"}
    assert toolchain_folders(found) == (home / ".rustup", home / "pyenv")


def test_somebody_elses_folders_on_a_path_do_no_harm(home: Path) -> None:
    """After `su` the PATH may still name another user's folders. Unreadable ones are left out."""
    if os.geteuid() == 0:
        pytest.skip("root may look everywhere")
    closed = home / "closed"
    _file(closed / "bin" / "tool")
    closed.chmod(0)
    assert _found(closed / "bin") == set()
    assert toolchains({"RUSTUP_HOME": str(closed / "bin")}) == {}
    closed.chmod(0o700)


def test_what_tells_of_the_host_is_not_among_the_settings() -> None:
    """Certificates and time zones are shown; accounts, keys and tokens are not."""
    names = {path.name for path in etc()}
    assert not names & {"shadow", "passwd", "ssh", "sudoers", "npmrc", "pip.conf", "gitconfig", "environment"}
