"""
A child process to talk to: its standard input and output are pipes held by the caller.

Language servers and MCP servers speak this way. They run beside an order's commands, told apart by their marks: the end
of a command takes nothing of a dialogue with it, nor the other way round. The holder ends it; then nothing of it is
alive.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Mapping
from io import FileIO
from pathlib import Path

from forgepool.workers.sandbox import tree
from forgepool.workers.sandbox.run.child import start
from forgepool.workers.sandbox.tree import new_family
from forgepool.workers.schema.confinement import Confinement

_LAST_BYTES = 4096
_READ_BYTES = 64 * 1024
_LINE_BYTES = 16 * 1024 * 1024


class Dialogue:
    """A started program. Asyncio talks to it after `connect`; the thread that started it calls `end`."""

    def __init__(self, argv: tuple[str, ...], *, cwd: Path, env: Mapping[str, str], confined: Confinement) -> None:
        """
        Start the program; `env` is complete except for the mark that is added.

        Raises:
            OSError, ValueError: it cannot be started; nothing runs.
        """
        self._family = new_family()
        self._last = b""
        self._transports: tuple[asyncio.BaseTransport, ...] = ()
        tree.become_subreaper()
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            pipes = [_pipe(ours, theirs, to_child=way) for way in (True, False, False)]
            self._input, self._output, self._errors = (mine for mine, _ in pipes)
            his_input, his_output, his_errors = (his.fileno() for _, his in pipes)
            self._child = start(
                argv,
                cwd=cwd,
                env=env,
                output=his_output,
                confined=confined,
                family=self._family,
                stdin=his_input,
                errors=his_errors,
            )
            ours.pop_all()

    @property
    def pid(self) -> int:
        return self._child.pid

    def running(self) -> bool:
        return not self._child.has_exited()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.WriteTransport]:
        """Return its output and its input. Call once, on the loop that will do the talking."""
        loop = asyncio.get_running_loop()
        os.set_blocking(self._errors.fileno(), False)
        loop.add_reader(self._errors.fileno(), self._overhear, loop)
        reader = asyncio.StreamReader(limit=_LINE_BYTES, loop=loop)
        output, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader, loop=loop), self._output)
        writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, self._input)
        self._transports = (output, writer)
        return reader, writer

    async def hang_up(self) -> None:
        """Close its input and stop listening. Call on the loop of `connect`, before `end`."""
        asyncio.get_running_loop().remove_reader(self._errors.fileno())
        for each in self._transports:
            each.close()
            # What it does not read would keep the pipe open.
            if isinstance(each, asyncio.WriteTransport) and each.get_write_buffer_size():
                each.abort()
        await asyncio.sleep(0)

    def last_words(self) -> str:
        """Return the last line it wrote to standard error; empty without one."""
        lines = self._last.decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def end(self, *, patience_s: float = 0.0) -> int | None:
        """Wait so long for it to end by itself, then kill all of it and close the pipes; return its own status."""
        deadline = time.monotonic() + patience_s
        with contextlib.suppress(OSError):
            self._input.close()
        while self.running() and time.monotonic() < deadline:
            time.sleep(0.01)
        if was_running := self.running():
            tree.kill_tree([self.pid])
        status = self._child.reap()
        self._child.close()
        while carriers := self._family.carriers():
            if tree.kill_tree(carriers):
                break  # another user's, or hanging in the kernel: nothing more can be done
        self._family.leave()
        self._overhear_the_rest()
        for pipe in (self._output, self._errors):
            with contextlib.suppress(OSError):
                pipe.close()
        return None if was_running else status

    def _overhear(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._overheard():
            loop.remove_reader(self._errors.fileno())

    def _overhear_the_rest(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # closed before
            os.set_blocking(self._errors.fileno(), False)
            while self._overheard():
                pass

    def _overheard(self) -> bytes:
        piece = os.read(self._errors.fileno(), _READ_BYTES)
        self._last = (self._last + piece)[-_LAST_BYTES:]
        return piece


def _pipe(ours: contextlib.ExitStack, theirs: contextlib.ExitStack, *, to_child: bool) -> tuple[FileIO, FileIO]:
    """Return our end and the child's, each closed by its stack."""
    reading, writing = os.pipe()
    mine, his = (
        (FileIO(writing, "wb"), FileIO(reading, "rb")) if to_child else (FileIO(reading, "rb"), FileIO(writing, "wb"))
    )
    return ours.enter_context(mine), theirs.enter_context(his)
