"""Attempts to learn what the user, the harness and other processes know. Keys in files are among `files`."""

import ctypes
import os
import socket
from pathlib import Path

from attempt import Stage, attempt
from calls import call
from sight import told

_TRACED = ("user", "pids", "scope", "files", "uid")
"""Layers against reading what only a tracer may see. Landlock's domains prevent tracing."""


def _each_process(name: str) -> list[str]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - as text
        try:
            found.append(Path("/proc", pid, name).read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


@attempt("door", "root", seen=told("environment"))
def read_its_own_environment(stage: Stage) -> str:
    return str(dict(os.environ))


@attempt(*_TRACED, seen=told("environment"))
def read_the_environment_of_the_harness(stage: Stage) -> str:
    return Path(f"/proc/{stage.harness}/environ").read_bytes().decode(errors="replace")


@attempt(*_TRACED, seen=told("witness"))
def read_the_environment_of_all(stage: Stage) -> list[str]:
    """Only environments that contain the witness's variable are returned, to keep the answer short."""
    return [each for each in _each_process("environ") if "FORGEPOOL_WITNESS" in each]


@attempt("pids", seen=told("argument"), may_be_idle="/proc hides the processes of other users")
def read_command_lines(stage: Stage) -> list[str]:
    return [each for each in _each_process("cmdline") if "witness" in each]


@attempt(*_TRACED, seen=told("memory"))
def read_memory_by_its_file(stage: Stage) -> str:
    with open(f"/proc/{stage.witness}/mem", "rb", buffering=0) as memory:  # noqa: PTH123 - at an address
        memory.seek(stage.witness_address)
        return memory.read(64).decode(errors="replace")


@attempt(*_TRACED, seen=told("unnamed"))
def read_a_file_without_a_name(stage: Stage) -> str:
    return Path(f"/proc/{stage.witness}/fd/{stage.witness_file}").read_text()


@attempt("seccomp", "filter", "uid", perhaps=("user",), seen=told("key"), may_be_idle="there are no keyrings here")
def read_a_key_of_the_keyring(stage: Stage) -> str:
    buffer = ctypes.create_string_buffer(200)
    call((250, 219), 11, stage.key, buffer, 200)
    return buffer.value.decode()


@attempt("root", "filter", "uid", perhaps=("files",), seen=told("socket"))
def ask_an_agent_for_keys(stage: Stage) -> str:
    with socket.socket(socket.AF_UNIX) as agent:
        agent.connect(stage.sockets["agent"])
        agent.sendall(stage.name.encode())
        return agent.recv(200).decode()


@attempt("root", "files", "uid", seen=told("journal"))
def read_the_journal(stage: Stage) -> str:
    return Path(stage.folder, "state", "runs", "r1", "journal.db").read_text()
