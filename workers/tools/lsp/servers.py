"""The language servers of one order: which exist, when they start, and what follows when one dies or hangs."""

import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from forgepool.workers.sandbox.run.dialogue import Dialogue
from forgepool.workers.schema.confinement import Confinement
from forgepool.workers.schema.settings import missing_extra, programs_folder
from forgepool.workers.tools.asyncio_thread import AsyncioThread
from forgepool.workers.tools.config import LanguageServer
from forgepool.workers.tools.lsp.documents import NoAnswer, Stamps, differences, stamps

# basedpyright's own defaults find fault with most code there is; a project that wants them says so in its own files.
_PYRIGHT = {"analysis": {"diagnosticMode": "openFilesOnly", "typeCheckingMode": "standard"}}

KNOWN = (
    LanguageServer(
        name="basedpyright",
        command=("basedpyright-langserver", "--stdio"),
        files={".py": "python", ".pyi": "python"},
        settings={"basedpyright": _PYRIGHT, "python": {}},
    ),
    LanguageServer(
        name="pyright",
        command=("pyright-langserver", "--stdio"),
        files={".py": "python", ".pyi": "python"},
        settings={"python": _PYRIGHT},
    ),
    LanguageServer(
        name="typescript",
        command=("typescript-language-server", "--stdio"),
        files={
            **dict.fromkeys((".ts", ".mts", ".cts"), "typescript"),
            ".tsx": "typescriptreact",
            **dict.fromkeys((".js", ".mjs", ".cjs"), "javascript"),
            ".jsx": "javascriptreact",
        },
    ),
    LanguageServer(name="gopls", command=("gopls",), files={".go": "go"}),
    LanguageServer(name="rust-analyzer", command=("rust-analyzer",), files={".rs": "rust"}),
    LanguageServer(
        name="clangd",
        command=("clangd", "--log=error"),
        files=dict.fromkeys((".c", ".h"), "c") | dict.fromkeys((".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"), "cpp"),
    ),
)


if TYPE_CHECKING:
    from forgepool.workers.tools.lsp.conversation import ServerConversation

T = TypeVar("T")
FindProgram = Callable[[str], str | None]

ANSWER_S = 20.0
_START_S = 40.0
_STARTS = 2
_SLOW = 2
_GOODBYE_S = 1.0


def program_finder(env: Mapping[str, str]) -> FindProgram:
    """Find programs as commands do, then those installed beside this Python."""
    return lambda name: shutil.which(name, path=env.get("PATH")) or shutil.which(name, path=programs_folder())


class RunningServer:
    """One language's server for a worktree. It starts with the first question, and once again when it dies."""

    def __init__(
        self,
        server: LanguageServer,
        program: str,
        root: Path,
        env: Mapping[str, str],
        confined: Confinement,
        aside: AsyncioThread,
    ) -> None:
        self.server = server
        self.root = root
        self._argv = (program, *server.command[1:])
        self._env = env
        self._confined = confined
        self._aside = aside
        self._dialogue: Dialogue | None = None
        self._conversation: ServerConversation | None = None
        self._starts = 0
        self._slow = 0
        self._last_words = ""
        self._unasked = True
        self._began = stamps(root, server.files)
        self._seen: Stamps = self._began

    @property
    def has_files(self) -> bool:
        return bool(self._began)

    def knows(self, path: Path) -> bool:
        return path.suffix in self.server.files

    def files(self) -> tuple[Path, ...]:
        """Return the worktree's files in its languages, as they are now."""
        return tuple(Path(each) for each in sorted(stamps(self.root, self.server.files)))

    def list_changed_files(self) -> tuple[Path, ...]:
        """Return the files that came or changed since the order began."""
        now = stamps(self.root, self.server.files)
        fates = differences(self._began, now)
        return tuple(Path(path) for path, fate in sorted(fates.items()) if fate != "deleted")

    def ask(
        self,
        question: "Callable[[ServerConversation], Awaitable[T]]",
        *,
        within_s: float = ANSWER_S,
        stop: Callable[[], bool] = lambda: False,
    ) -> T:
        """
        Answer a question about the files as they are now. A server that dies of it is started again, once.

        Raises:
            NoAnswer: it took too long, the server is gone, or it refused.
        """
        from forgepool.workers.tools.lsp.conversation import Gone

        while True:
            conversation = self._conversation or self._start(within_s=within_s, stop=stop)
            try:
                answer = self._aside.answer(self._asked(conversation, question), within_s=within_s, stop=stop)
            except Gone:
                self.end()
                continue
            except TimeoutError as late:
                raise self._late(within_s) from late
            self._slow = 0
            return answer

    def end(self) -> None:
        """End the process and all its children; the next question starts another."""
        conversation, dialogue = self._conversation, self._dialogue
        self._conversation = self._dialogue = None
        if dialogue is None:
            return
        try:
            if conversation is not None:
                self._aside.answer(conversation.close(), within_s=_GOODBYE_S)
        except TimeoutError:
            pass
        finally:
            dialogue.end()
            self._last_words = dialogue.last_words()

    async def _asked(
        self, conversation: "ServerConversation", question: "Callable[[ServerConversation], Awaitable[T]]"
    ) -> T:
        now = stamps(self.root, self.server.files)
        fates = differences(self._seen, now)
        self._seen = now
        conversation.tell_changes({Path(path): fate for path, fate in fates.items()})
        await conversation.settle()
        first = self._unasked
        self._unasked = False
        begun = conversation.works_begun
        answer = await question(conversation)
        if not first or conversation.works_begun == begun:
            return answer
        # It began to read the project while it answered, and may have answered of what it had read so far.
        await conversation.settle()
        return await question(conversation)

    def _start(self, *, within_s: float, stop: Callable[[], bool]) -> "ServerConversation":
        from forgepool.workers.tools.lsp.conversation import Gone, ServerConversation

        while self._starts < _STARTS:
            self._starts += 1
            try:
                self._dialogue = Dialogue(self._argv, cwd=self.root, env=self._env, confined=self._confined)
                self._seen = stamps(self.root, self.server.files)
                self._unasked = True
                self._conversation = ServerConversation(self.server, self._dialogue, self.root)
                self._aside.answer(self._conversation.begin(), within_s=max(within_s, _START_S), stop=stop)
                return self._conversation
            except (Gone, OSError, ValueError, TimeoutError):
                self.end()
        last = f" (it said: {self._last_words[:200]})" if self._last_words else ""
        raise NoAnswer(f"the language server {self.server.name} is away: it ended {_STARTS} times; use grep{last}")

    def _late(self, within_s: float) -> NoAnswer:
        """
        Return the failure for a late answer. At first it may be reading a large project; a second time in a
        row, it hangs.
        """
        self._slow += 1
        if self._slow < _SLOW:
            return NoAnswer(f"{self.server.name} did not answer in {within_s:.0f} s; try once more, or use grep")
        self._slow = 0
        self.end()
        return NoAnswer(f"{self.server.name} did not answer in {within_s:.0f} s again and was ended; use grep")


class LanguageServers:
    """
    The servers for a worktree's languages. All are dead at the end of the block.

    A server is present when its program is, and the worktree has a file in one of its languages.
    """

    def __init__(
        self,
        root: Path,
        env: Mapping[str, str],
        confined: Confinement,
        configured: Sequence[LanguageServer] = (),
        find_program: FindProgram | None = None,
    ) -> None:
        """`root` is a real path; `env` is the complete environment of commands, which servers get too."""
        find = find_program or program_finder(env)
        self._aside = AsyncioThread()
        present = tuple(
            each
            for server, program in _present(configured, find)
            if (each := RunningServer(server, program, root, env, confined, self._aside)).has_files
        )
        missing = missing_extra("lsp") if present else None
        self.running: tuple[RunningServer, ...] = () if missing else present
        left_out = present if missing else ()
        self.warnings = tuple(f"language server {each.server.name} is left out: {missing}" for each in left_out)
        """A sentence for each server that is left out."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for each in self.running:
                each.end()
        finally:
            self._aside.__exit__(kind, value, trace)

    def of(self, path: Path) -> RunningServer | None:
        """Return the server for a file's language; None where there is none."""
        return next((each for each in self.running if each.knows(path)), None)


def _present(configured: Sequence[LanguageServer], find: FindProgram) -> list[tuple[LanguageServer, str]]:
    """Return the servers whose program exists, each with the suffixes that no earlier server has."""
    found: list[tuple[LanguageServer, str]] = []
    taken: set[str] = set()
    for server in (*configured, *KNOWN):
        files = {suffix: language for suffix, language in server.files.items() if suffix not in taken}
        program = find(server.command[0]) if files else None
        if program is not None:
            found.append((server.model_copy(update={"files": files}), program))
            taken |= set(files)
    return found
