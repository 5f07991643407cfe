"""The bot in a thread of the queue's process: which forge it asks, and how often."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import structlog

from forgepool.orchestrator.merge_queue.bot.admission import Door
from forgepool.orchestrator.merge_queue.bot.intake import load_memory
from forgepool.orchestrator.merge_queue.bot.rounds import Bot
from forgepool.orchestrator.merge_queue.forges import github, gitlab
from forgepool.orchestrator.merge_queue.forges.api import Api
from forgepool.orchestrator.merge_queue.forges.codeowners import Dialect
from forgepool.orchestrator.merge_queue.forges.protocol import LABEL, Forge, ForgeAway, ForgeRefused
from forgepool.orchestrator.merge_queue.serve.serve import Beside
from forgepool.orchestrator.reports.queue_board import QueueView
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.hub.mirror import Mirror

log = structlog.get_logger()

EVERY_S = 20.0
_ENDS_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A repository of a forge, as the command line names it."""

    forge: str
    """`github:OWNER/REPO` or `gitlab:GROUP/PROJECT`."""
    url: str | None = None
    """URL of the API; None: the vendor's own."""
    commits: str | None = None
    """URL of the repository for git; None: the forge's own."""
    label: str = LABEL
    every_s: float = EVERY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    name: str
    dialect: Dialect
    forge: Forge
    api: Api
    commits: str


def connect_forge(
    wanted: Connection, settings: Settings, stop: threading.Event, *, option: str = "--forge"
) -> Connected:
    """Connect without asking anything yet. Raises CannotRun for an invalid repository, or without a token."""
    kind, _, repository = wanted.forge.partition(":")

    def wait(seconds: float) -> None:
        stop.wait(seconds)

    try:
        if kind == "github":
            url = wanted.url or github.URL
            api = github.github_api(settings, url, wait=wait)
            forge: Forge = github.GitHub(api, repository, label=wanted.label)
            at = "https://github.com" if url == github.URL else url.rstrip("/").removesuffix("/api/v3")
        elif kind == "gitlab":
            url = wanted.url or gitlab.URL
            api = gitlab.gitlab_api(settings, url, wait=wait)
            forge = gitlab.GitLab(api, repository, label=wanted.label)
            at = url.rstrip("/").removesuffix("/api/v4")
        else:
            raise CannotRun(f"{option} '{wanted.forge}' is not a forge; use github:OWNER/REPO or gitlab:GROUP/PROJECT")
    except ForgeRefused as refused:
        raise CannotRun(str(refused)) from refused
    dialect: Dialect = "github" if kind == "github" else "gitlab"
    commits = wanted.commits or f"{at}/{repository}.git"
    return Connected(name=f"{wanted.forge} at {url}", dialect=dialect, forge=forge, api=api, commits=commits)


def bot_of(found: Connected, view: QueueView, mirror: Mirror, target: str, tell: Callable[[str], None]) -> Bot:
    return Bot(
        forge=found.forge,
        door=Door(forge=found.forge, dialect=found.dialect, mirror=mirror, commits=found.commits),
        view=view,
        target=target,
        memory=load_memory(view.folder, found.name),
        tell=tell,
    )


def bot_beside(wanted: Connection, target: str, settings: Settings, tell: Callable[[str], None]) -> Beside:
    """Return the bot as a service beside a queue. Raises CannotRun where it could not start."""
    stop = threading.Event()
    found = connect_forge(wanted, settings, stop)
    tell(f"changes of {wanted.forge} with the label '{wanted.label}' enter the queue")

    def beside(kept: KeptRun, mirror: Mirror) -> AbstractContextManager[None]:
        news = News(tell)
        bot = bot_of(found, QueueView(kept.folder), mirror, target, news.hear)
        return working(bot, found.api, news, wanted.every_s, stop)

    return beside


@contextmanager
def working(bot: Bot, api: Api, news: "News", every_s: float, stop: threading.Event) -> Iterator[None]:
    thread = threading.Thread(target=_work, args=(bot, news, every_s, stop), name="gate-bot", daemon=True)
    with api:
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(_ENDS_WITHIN_S)


class News:
    """Reports each trouble once, for as long as it lasts."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._before: set[str] = set()
        self._now: set[str] = set()

    def hear(self, sentence: str) -> None:
        if sentence not in self._before | self._now:
            log.warning("forge.trouble", why=sentence)
            self._tell(f"{sentence} (will be retried)")
        self._now.add(sentence)

    def next_round(self) -> None:
        self._before, self._now = self._now, set()


def _work(bot: Bot, news: News, every_s: float, stop: threading.Event) -> None:
    while not stop.is_set():
        pause = every_s
        try:
            bot.round()
        except ForgeAway as away:
            news.hear(str(away))
            pause = max(every_s, away.after_s or 0.0)
        except Exception as trouble:
            # Whatever it is, the queue goes on, and the bot tries again in its next round.
            news.hear(str(trouble) or type(trouble).__name__)
        news.next_round()
        stop.wait(pause)
