"""The screens of `forgepool watch`, which follow the journals. What they show is made in `panes`."""

import asyncio
import signal
import time
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import ClassVar, Generic, TypeVar

from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static
from textual.worker import WorkerFailed

from forgepool.orchestrator.interfaces.watch.dialog import KEYS, TROUBLE, ActionDialog
from forgepool.orchestrator.interfaces.watch.panes import (
    TABS,
    ListPane,
    PaneRow,
    Place,
    Tab,
    TaskPane,
    home_pane,
    run_pane,
)
from forgepool.orchestrator.interfaces.watch.source import OtherHome, OwnHome
from forgepool.orchestrator.interfaces.watch.widgets import TONES, LongText, RowList, cut_lines, plain
from forgepool.orchestrator.interfaces.web.actions import WebAction, Word
from forgepool.orchestrator.interfaces.web.pages import RowFilter
from forgepool.orchestrator.interfaces.web.stream import HomeMark, RunMark

_LOOK_S, _AGAIN_S, _FRESH_S = 0.2, 2.0, 15.0
"""
Seconds between two looks at the journals, and between two tries at what cannot be read. After the last number a screen
is made again in any case, since some rows depend on the clock.
"""
_CHOSEN_LINES = 3
P = TypeVar("P", bound=ListPane | TaskPane)


class LiveScreen(Screen[None], Generic[P]):
    """A screen that is made again when what it shows has changed. While another one is above it, it rests."""

    app: "WatchApp"
    place = Place()
    pane: P | None = None

    @abstractmethod
    def make(self) -> P:
        """Return the content; called in a thread. Raises one of TROUBLE."""

    @abstractmethod
    def show(self, pane: P) -> None: ...

    @abstractmethod
    def mark(self) -> Hashable:
        """Return a value that changes when there is something new. Raises one of TROUBLE."""

    def on_screen_resume(self) -> None:
        self.begin()

    def on_screen_suspend(self) -> None:
        self.workers.cancel_node(self)

    @work(exclusive=True)
    async def begin(self) -> None:
        """Make the content now, and follow it. A making that is under way is forgotten."""
        seen: Hashable = None
        while True:
            try:
                if (mark := (self.mark(), int(time.monotonic() / _FRESH_S))) != seen:
                    seen = mark
                    self.pane = await asyncio.to_thread(self.make)
                    self.show(self.pane)
            except TROUBLE as away:
                self.pane = seen = None
                self.query_one("#facts", Static).update(plain(str(away)))
                self.tell_keys("Esc back", "q quit")
                await asyncio.sleep(_AGAIN_S)
            await asyncio.sleep(_LOOK_S)

    def actions(self) -> Sequence[WebAction]:
        """Return what can be done about what is shown."""
        return self.pane.actions if self.pane else ()

    def tell_keys(self, *others: str) -> None:
        """Show the keys: first those of the actions, then the others."""
        found = [f"{KEYS[one.do]} {one.label}" for one in self.actions()]
        line = Content("  ").join([*(Content.styled(one, "bold") for one in found), *map(Content, others)])
        self.query_one("#keys", Static).update(line)

    def action_act(self, do: Word) -> None:
        """Ask about an action that is offered for what is shown; the candidate is the shown one."""
        for one in self.actions():
            if one.do == do:
                self.app.push_screen(ActionDialog(self.app.source.act, self.place.run, one), self.app.tell)

    def action_back(self) -> None:
        if len(self.app.screen_stack) > 2:
            self.app.pop_screen()


class ListScreen(LiveScreen[ListPane]):
    """Everything that needs a person, then the runs of a home; or the same of one run, then its tasks or entries."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "find", show=False),
        Binding("n,right_square_bracket", "page(1)", show=False),
        Binding("N,left_square_bracket", "page(-1)", show=False),
    ]

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place, self.wanted = place, RowFilter()

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        yield Static(id="facts", markup=False)
        yield Static("Needs you", classes="heading", markup=False)
        yield RowList("wants")
        yield Static(id="heading", classes="heading", markup=False)
        yield RowList("rows")
        yield Static(id="chosen", markup=False)
        yield Input(id="find", placeholder="Find: a part of a name; Enter shows what has it", compact=True)
        yield Static(id="keys", markup=False)

    def make(self) -> ListPane:
        home = self.app.home
        return run_pane(home, self.place.run, self.wanted) if self.place.run else home_pane(home)

    def mark(self) -> Hashable:
        own = RunMark(self.app.home.view(self.place.run).folder)() if self.place.run else None
        return self.app.everything(), own

    def show(self, pane: ListPane) -> None:
        self.query_one("#title", Static).update(plain(pane.title))
        self.query_one("#facts", Static).update(plain("\n".join(pane.facts)))
        self.query_one("#heading", Static).update(plain(pane.heading))
        wants, rows = self.query_one("#wants", RowList), self.query_one("#rows", RowList)
        wants.show(pane.wants)
        rows.show(pane.rows)
        wants.display = bool(pane.wants)
        if not (wants.has_focus and pane.wants) and not rows.has_focus and not self.query_one("#find").has_focus:
            (wants if pane.wants else rows).focus()
        self.query_one(".heading", Static).update("Needs you" if pane.wants else "Nothing needs you.")
        self._tell_chosen()

    def on_option_list_option_highlighted(self) -> None:
        self._tell_chosen()

    def on_descendant_focus(self) -> None:
        self._tell_chosen()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        if isinstance(event.option_list, RowList) and (row := event.option_list.current()):
            self.app.open(row.place, above=self.place)

    def current_row(self) -> PaneRow | None:
        """Return the row under the cursor."""
        wants, rows = self.query_one("#wants", RowList), self.query_one("#rows", RowList)
        return (wants if wants.has_focus else rows).current()

    def action_act(self, do: Word) -> None:
        """Ask about an action; one that is not offered here may be offered for the chosen task, which is opened."""
        row = self.current_row()
        if do in ("pause", "go") or row is None or not row.place.task or any(one.do == do for one in self.actions()):
            super().action_act(do)
        else:
            self.app.open(row.place, above=self.place)

    def _tell_chosen(self) -> None:
        """Show more of the row under the cursor than its line has room for: first its command."""
        row, width, command = self.current_row(), self.app.size.width, list[str]()
        if row is not None and row.command:
            mark = "$" if row.command.startswith("forgepool ") else "next:"
            command = cut_lines(f"{mark} {row.command}", width, _CHOSEN_LINES)
        said = f"{row.cells[1].strip()}: {row.cells[2]}" if row is not None else ""
        lines = [Content(line) for line in cut_lines(said, width, _CHOSEN_LINES - len(command))]
        shown = [*(Content.styled(line, "bold") for line in command), *lines]
        self.query_one("#chosen", Static).update(Content("\n").join(shown))
        last = self.pane.pages if self.pane else 1
        more = ("/ find", *(("n N next, previous page",) if last > 1 else ())) if self.place.run else ()
        self.tell_keys("Enter open", "Tab other list", *more, *(("Esc back",) if self.place.run else ()), "q quit")

    def action_find(self) -> None:
        if self.place.run:
            self.query_one("#find").display = True
            self.query_one("#find").focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._find(event.value)

    def _find(self, words: str) -> None:
        self.wanted = RowFilter(words=words.strip())
        self.query_one("#find").display = False
        self.query_one("#rows").focus()
        self.begin()

    def action_page(self, step: int) -> None:
        if self.pane is not None and 1 <= self.pane.page + step <= self.pane.pages:
            self.wanted = replace(self.wanted, page=self.pane.page + step)
            self.begin()

    def action_back(self) -> None:
        if self.query_one("#find").display or self.wanted.words:
            self.query_one("#find", Input).value = ""
            self._find("")
        else:
            super().action_back()


class TaskScreen(LiveScreen[TaskPane]):
    """One task, or one entry of a queue: its state and why, its transcript, its diff, its logs."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(n), f"tab('{tab}')", show=False) for n, tab in enumerate(TABS, start=1)),
        Binding("tab", "next_tab", show=False),
        Binding("comma", "log(-1)", show=False),
        Binding("full_stop", "log(1)", show=False),
    ]

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.tab: Tab = TABS[0]
        self.log_number: int | None = None
        self.is_new = True

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        yield Static(id="facts", markup=False)
        yield Static(id="tabs", classes="heading", markup=False)
        yield LongText("lines")
        yield Static(id="keys", markup=False)

    def make(self) -> TaskPane:
        return self.app.source.show_task(self.place, self.tab, self.log_number)

    def mark(self) -> Hashable:
        follows = self.pane.follows if self.pane else None
        return RunMark(self.app.home.view(self.place.run).folder, follows)()

    def show(self, pane: TaskPane) -> None:
        text = self.query_one("#lines", LongText)
        # A file is shown from its end, and is followed there until a person scrolls up.
        at_end = self.is_new or text.is_vertical_scroll_end
        self.query_one("#title", Static).update(plain(pane.title))
        mark, style = TONES[pane.tone]
        self.query_one("#facts", Static).update(Content.styled(f"{mark} {plain(pane.state).plain}", style))
        self._tell_tabs(f"  {pane.heading}" if pane.heading else "")
        text.show(pane.lines)
        if at_end and pane.follows:
            self.call_after_refresh(text.scroll_end, animate=False)
        self.is_new = False
        self.tell_keys("Tab other part", *((", . other log",) if self.tab == "log" else ()), "Esc back", "q quit")

    def _tell_tabs(self, heading: str) -> None:
        parts = [
            Content.styled(f" {n} {tab} ", "reverse" if tab == self.tab else "") for n, tab in enumerate(TABS, start=1)
        ]
        self.query_one("#tabs", Static).update(Content("").join([*parts, plain(heading)]))

    def action_tab(self, tab: Tab) -> None:
        self.tab, self.log_number, self.is_new = tab, None, True
        self._tell_tabs("")
        self.query_one("#lines", LongText).show([("", "This is being read.")])
        self.query_one("#lines").scroll_home(animate=False)
        self.begin()

    def action_next_tab(self) -> None:
        self.action_tab(TABS[(TABS.index(self.tab) + 1) % len(TABS)])

    def action_log(self, step: int) -> None:
        if self.tab == "log" and self.pane is not None:
            self.log_number, self.is_new = max(0, self.pane.log + step), True
            self.begin()


class WatchApp(App[BaseException]):
    """All runs and queues of a home; begins with one run where one is named."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #title { text-style: bold; }
    #title, #facts, #keys, #chosen, #tabs { width: 100%; height: auto; }
    #facts { max-height: 4; }
    .heading { text-style: underline; margin-top: 1; }
    #wants { height: auto; max-height: 35%; }
    #rows, #lines { height: 1fr; }
    OptionList { text-wrap: nowrap; text-overflow: ellipsis; }
    OptionList > .option-list--option-highlighted { color: ansi_default; background: ansi_default; text-style: none; }
    #chosen { max-height: 4; border-top: solid ansi_default; }
    #keys { border-top: solid ansi_default; }
    #find { display: none; }
    ToastRack { dock: top; align: right top; }
    ActionDialog { align: center middle; }
    ActionDialog > Vertical { width: 90%; height: auto; max-height: 100%; border: solid ansi_default; padding: 0 1; }
    ActionDialog Input { border: none; height: 1; text-style: underline; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"screen.act('{do}')", show=False) for do, key in KEYS.items()),
        Binding("escape", "screen.back", show=False),
        Binding("q", "quit", show=False),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]

    def __init__(self, source: OwnHome, run: str = "") -> None:
        super().__init__(ansi_color=True)
        self.theme, self.animation_level = "ansi-dark", "none"  # The terminal's own colours, light or dark.
        self.source, self.home = source, source.home
        self.run_name, self.everything = run, HomeMark(source.home)

    def on_mount(self) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            # By default they would end it at once, and leave the terminal as it is now.
            asyncio.get_running_loop().add_signal_handler(number, self.exit)
        if isinstance(self.source, OtherHome):
            self.source.tell = lambda said: self.call_from_thread(self.tell, said)
        self.push_screen(ListScreen(Place()))
        if self.run_name:
            self.open(Place(run=self.run_name), above=Place())

    def open(self, place: Place, above: Place) -> None:
        """Show a place above another one."""
        if place.task:
            self.push_screen(TaskScreen(place))
        elif place != above:
            self.push_screen(ListScreen(place))

    def _handle_exception(self, error: Exception) -> None:
        # Textual prints a traceback with the values of variables. The command line tells of a bug in one sentence.
        self.exit(error.error if isinstance(error, WorkerFailed) else error)

    def tell(self, said: str | None) -> None:
        """Show what follows from an action."""
        if said:
            self.notify(plain(said).plain, markup=False, timeout=8)
