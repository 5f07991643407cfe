"""Attempts on files outside: to change, make, replace or read them."""

import contextlib
import ctypes
import os
import stat
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attempt import Stage, attempt
from calls import LIBC, call, opens
from sight import said_so, told, touched

if TYPE_CHECKING:
    from surroundings import World

_HIDDEN = ("root", "files", "uid")
"""Layers against a file outside the command's own root and its Landlock rules, owned by another user."""
_CHANGED = ("root", "uid")
"""The same without Landlock's `files`, which does not know such changes."""


def _seen(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _append(path: str) -> None:
    with open(path, "a") as file:  # noqa: PTH123 - the path as it is
        file.write("!")


@attempt(*_HIDDEN, seen=touched)
def write_outside(stage: Stage) -> None:
    _append(stage.canary)


@attempt(*_HIDDEN, seen=touched)
def write_through_a_link_to_a_folder(stage: Stage) -> None:
    Path(stage.inside("link")).symlink_to(Path(stage.canary).parent)
    _append(f"{stage.inside('link')}/{stage.name}")


@attempt(*_HIDDEN, seen=touched)
def write_through_a_link_to_a_file(stage: Stage) -> None:
    Path(stage.inside("link")).symlink_to(stage.canary)
    _append(stage.inside("link"))


@attempt(*_HIDDEN, seen=touched)
def write_by_dots(stage: Stage) -> None:
    _append(os.path.join(stage.worktree, os.path.relpath(stage.canary, stage.worktree)))  # noqa: PTH118 - unresolved


@attempt(*_HIDDEN, seen=touched)
def write_by_own_cwd(stage: Stage) -> None:
    _append(f"/proc/self/cwd/{os.path.relpath(stage.canary, os.getcwd())}")  # noqa: PTH109 - unresolved


@attempt(*_HIDDEN, seen=touched)
def write_by_own_root(stage: Stage) -> None:
    _append(f"/proc/self/root{stage.canary}")


@attempt("user", "pids", *_HIDDEN, "scope", seen=touched)
def write_by_the_root_of_the_harness(stage: Stage) -> None:
    _append(f"/proc/{stage.harness}/root{stage.canary}")


@attempt("user", "pids", *_HIDDEN, "scope", seen=touched)
def write_by_the_cwd_of_the_harness(stage: Stage) -> None:
    _append(f"/proc/{stage.harness}/cwd/{os.path.relpath(stage.canary, stage.folder)}")


@attempt("user", "pids", *_HIDDEN, "scope", seen=touched)
def write_by_a_descriptor_of_another(stage: Stage) -> None:
    _append(f"/proc/{stage.witness}/fd/{stage.canary_descriptors[stage.name]}")


@attempt("door", seen=touched)
def write_to_an_inherited_descriptor(stage: Stage) -> None:
    os.write(stage.canary_descriptors[stage.name], b"!")


@attempt("door", "files", seen=touched)
def open_an_inherited_folder(stage: Stage) -> None:
    folder = stage.canary_descriptors[stage.name]
    file = os.open(stage.name, os.O_WRONLY | os.O_APPEND, dir_fd=folder)
    os.write(file, b"!")


@attempt(*_HIDDEN, seen=touched)
def write_through_a_hard_link(stage: Stage) -> None:
    os.link(stage.canary, stage.inside("linked"))
    _append(stage.inside("linked"))


@attempt(*_HIDDEN, seen=touched)
def link_a_file_in_and_change_its_mode(stage: Stage) -> None:
    """If the link can be made, the file is inside what Landlock allows."""
    os.link(stage.canary, stage.inside("linked"))
    Path(stage.inside("linked")).chmod(0o606)


@attempt(*_HIDDEN, seen=touched)
def carry_a_file_in(stage: Stage) -> None:
    Path(stage.canary).rename(stage.inside("taken"))


@attempt(*_HIDDEN, seen=touched)
def put_a_file_in_its_place(stage: Stage) -> None:
    Path(stage.inside("other")).write_text("other")
    Path(stage.inside("other")).replace(stage.canary)


@attempt(*_HIDDEN, seen=touched)
def exchange_files(stage: Stage) -> None:
    Path(stage.inside("other")).write_text("other")
    here, exchange = -100, 2
    LIBC.renameat2(here, stage.inside("other").encode(), here, stage.canary.encode(), exchange)


@attempt(*_HIDDEN, seen=touched)
def write_while_a_folder_turns_into_a_link(stage: Stage) -> None:
    """It races against a check that looks first and opens later."""
    folder, place = stage.inside("folder"), stage.inside("place")
    Path(folder).mkdir()
    Path(place).symlink_to(folder)
    pid = os.fork()
    if pid == 0:
        while True:
            for target in (folder, str(Path(stage.canary).parent)):
                Path(f"{place}.new").symlink_to(target)
                Path(f"{place}.new").replace(place)
    # A process that sees the canary knows when the race is won.
    end = time.monotonic() + (4.0 if _seen(stage.canary) else 0.3)
    while time.monotonic() < end and "!" not in _seen(stage.canary):
        with contextlib.suppress(OSError):
            _append(f"{place}/{stage.name}")
    os.kill(pid, 9)
    os.waitpid(pid, 0)


@attempt(*_HIDDEN, seen=touched)
def cut_a_file(stage: Stage) -> None:
    os.truncate(stage.canary, 0)


@attempt(*_HIDDEN, seen=touched)
def remove_a_file(stage: Stage) -> None:
    Path(stage.canary).unlink()


@attempt(*_CHANGED, seen=touched)
def change_a_mode(stage: Stage) -> None:
    Path(stage.canary).chmod(0o777)


@attempt(*_CHANGED, seen=touched)
def change_times(stage: Stage) -> None:
    os.utime(stage.canary, (1, 1))


@attempt(*_CHANGED, "filter", seen=touched, may_be_idle="the file system keeps no attributes of users")
def set_an_attribute(stage: Stage) -> None:
    os.setxattr(stage.canary, "user.forgepool", b"!")


@attempt(*_CHANGED, "user", seen=touched, needs_root=True)
def change_an_owner(stage: Stage) -> None:
    os.chown(stage.canary, 12345, 12345)


@attempt(*_HIDDEN, seen=lambda world, name, said: (world.outside / name).exists())
def make_a_file(stage: Stage) -> None:
    Path(stage.outside, stage.name).write_text("here")


@attempt(*_HIDDEN, seen=lambda world, name, said: (world.outside / name).exists())
def make_a_folder(stage: Stage) -> None:
    Path(stage.outside, stage.name).mkdir()


@attempt(*_HIDDEN, seen=lambda world, name, said: (world.outside / name).is_symlink())
def make_a_link(stage: Stage) -> None:
    Path(stage.outside, stage.name).symlink_to("/etc")


@attempt(*_HIDDEN, seen=lambda world, name, said: (world.outside / name).is_fifo())
def make_a_pipe(stage: Stage) -> None:
    os.mkfifo(f"{stage.outside}/{stage.name}")


@attempt("user", "files", "uid", seen=said_so, needs_root=True)
def make_a_device(stage: Stage) -> bool:
    """A device file in the worktree gives access to its device."""
    os.mknod(stage.inside("zero"), stat.S_IFCHR | 0o666, os.makedev(1, 5))
    return opens(stage.inside("zero"), os.O_RDWR)


@attempt(*_HIDDEN, seen=told("file"))
def read_a_key(stage: Stage) -> str:
    return Path(stage.home, ".ssh", "id_rsa").read_text()


@attempt(*_HIDDEN, seen=told("file"))
def read_a_key_by_a_mapping(stage: Stage) -> str:
    import mmap

    with open(f"{stage.home}/.ssh/id_rsa", "rb") as file:  # noqa: PTH123 - to be mapped
        return mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)[:].decode()


@attempt(*_HIDDEN, seen=told("name"))
def list_a_home(stage: Stage) -> list[str]:
    return os.listdir(stage.home)  # noqa: PTH208 - as text


@attempt(*_CHANGED, seen=lambda world, name, said: said == (world.home / ".ssh" / "id_rsa").stat().st_mtime_ns)
def find_out_whether_a_key_is_there(stage: Stage) -> int:
    return Path(stage.home, ".ssh", "id_rsa").stat().st_mtime_ns


@attempt(*_HIDDEN, seen=told("file"))
def read_a_key_through_a_link(stage: Stage) -> str:
    Path(stage.inside("link")).symlink_to(Path(stage.home, ".ssh", "id_rsa"))
    return Path(stage.inside("link")).read_text()


@attempt("user", "seccomp", "files", "filter", "uid", seen=told("handle"), needs_root=True)
def open_by_handle(stage: Stage) -> str:
    """It opens a file by the number of its inode, from any folder of its file system."""
    kind, digits = stage.handle
    name = bytes.fromhex(digits)
    handle = ctypes.create_string_buffer(struct.pack("=Ii", len(name), kind) + name, 8 + len(name))
    folder = os.open(stage.worktree, os.O_RDONLY)
    file = LIBC.open_by_handle_at(folder, handle, os.O_RDONLY)
    if file < 0:
        raise OSError(ctypes.get_errno(), "open_by_handle_at")
    return os.read(file, 1000).decode()


@attempt("root", "uid", seen=said_so, needs_root=True)
def read_the_passwords(stage: Stage) -> bool:
    return Path("/etc/shadow").read_text().startswith("root:")


@attempt("root", "files", "uid", seen=said_so, needs_root=True)
def open_the_list_of_users_to_write(stage: Stage) -> bool:
    return opens("/etc/passwd", os.O_WRONLY | os.O_APPEND)


@attempt("root", "files", "uid", seen=said_so, needs_root=True)
def open_a_program_to_write(stage: Stage) -> bool:
    return opens("/usr/bin/tac", os.O_WRONLY | os.O_APPEND)  # Not a program that may be running just now.


def _runs_as_its_owner(world: "World", name: str, said: Any) -> bool:
    """On disk it belongs to the user, or even root, so a process that runs it has their rights."""
    made = world.worktree / f"{name}.program"
    return made.exists() and bool(made.stat().st_mode & 0o6000)


@attempt("seccomp", "filter", seen=_runs_as_its_owner)
def leave_a_program_that_runs_as_its_owner(stage: Stage) -> None:
    Path(stage.inside("program")).write_text("#!/bin/sh\n")
    Path(stage.inside("program")).chmod(0o4755)


@attempt("seccomp", "filter", seen=_runs_as_its_owner)
def leave_a_program_that_runs_as_its_group(stage: Stage) -> None:
    Path(stage.inside("program")).write_text("#!/bin/sh\n")
    with open(stage.inside("program")) as file:  # noqa: PTH123 - its mode is changed by the descriptor
        os.fchmod(file.fileno(), 0o2755)


@attempt("seccomp", "filter", seen=_runs_as_its_owner)
def make_a_program_that_runs_as_its_owner(stage: Stage) -> None:
    """The mode is set when the file is made."""
    os.close(os.open(stage.inside("program"), os.O_CREAT | os.O_WRONLY, 0o4755))


@attempt("seccomp", "filter", seen=_runs_as_its_owner)
def name_a_program_that_runs_as_its_owner(stage: Stage) -> None:
    """It has no name when it is made."""
    file = os.open(stage.worktree, os.O_TMPFILE | os.O_WRONLY, 0o4755)
    here, follow = -100, 0x400  # `os.link` never follows links, whatever its argument
    LIBC.linkat(here, f"/proc/self/fd/{file}".encode(), here, stage.inside("program").encode(), follow)


@attempt("seccomp", "filter", seen=_runs_as_its_owner)
def make_a_program_by_a_struct(stage: Stage) -> None:
    """The mode is in a struct, where no filter can look."""
    how = ctypes.create_string_buffer(struct.pack("=QQQ", os.O_CREAT | os.O_WRONLY, 0o4755, 0), 24)
    os.close(call(437, -100, stage.inside("program").encode(), how, 24))


@attempt("seccomp", "filter", seen=_runs_as_its_owner)
def make_a_node_that_runs_as_its_owner(stage: Stage) -> None:
    os.mknod(stage.inside("program"), stat.S_IFREG | 0o4755)
