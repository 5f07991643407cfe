"""
Tells a person elsewhere about a run: by a webhook, or by a command of theirs.

There are three occasions: a person is needed, four fifths of the budget are used, the run has stopped. A notification
is sent beside the run, which waits only at its end, for a few seconds. A failure is a sentence at the terminal.

In quiet hours the first two wait for their end, and one notification then has all that still needs a person. The end of
a run is told at once, since no process is left to tell it later.

A webhook gets JSON by POST. With `FORGEPOOL_NOTIFY_KEY`, `Forgepool-Signature` is the HMAC-SHA256 of the value of
`Forgepool-Timestamp`, a dot, and the body. Redirects are not followed: the address is the person's word.
"""

import hashlib
import hmac
import html
import json
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import Recorded
from forgepool.orchestrator.reports.attention import Liveness, attention
from forgepool.orchestrator.reports.costs import bill
from forgepool.orchestrator.reports.status import tell_verdict
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.sandbox.own_processes import run_program
from forgepool.workers.schema.error_lines import plain_text
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.errors import UserError

Occasion = Literal["attention", "budget", "end"]
_TRIES_AFTER_S = (0.0, 1.0, 4.0)
"""Pauses before the tries of one notification."""
_TRY_S = 10.0
_LAST_S = 10.0
"""Seconds that the end of a run waits for its notifications."""
_APART_S = 60.0
"""Seconds between two notifications that a person is needed; what comes in between is in the next."""
_BUDGET_SHARE = 0.8
_LOOKS_APART_S = 2.0
_MOST_WANTED = 20


class NotifyWrong(UserError):
    """The address of a notification is none. One sentence."""


@dataclass(slots=True)
class Notifier:
    """Watches a run and notifies."""

    where: str = field(repr=False)
    """A URL of http or https, or a shell command that gets the JSON on its standard input."""
    key: bytes | None = field(repr=False)
    course: PlanIndex
    warn: Callable[[str], None]
    quiet: frozenset[int] = frozenset()
    """Hours of the day in which only the end of the run is told."""
    hour: Callable[[], int] = lambda: time.localtime().tm_hour
    _under_way: list[threading.Thread] = field(default_factory=list)
    _due: bool = False
    _sent_at: float = float("-inf")
    _looked_at: float = float("-inf")
    _budget_told: bool | None = None

    def listen(self, state: RunState, recorded: Sequence[Recorded]) -> None:
        """Take the events of a turn of the loop."""
        now = time.monotonic()
        self._due |= any(isinstance(one.event, e.TaskParked | e.GateHalted) for one in recorded)
        quiet = self.hour() in self.quiet
        if self._due and not quiet and now > self._sent_at + _APART_S:
            self._due, self._sent_at = False, now
            self._send("attention", state)
        if self._budget_told is not True and now > self._looked_at + _LOOKS_APART_S:
            self._looked_at = now
            passed = self._is_budget_near(state)
            if passed and self._budget_told is not None:
                if quiet:
                    return
                self._send("budget", state)
            # Where a run resumes beyond it, the person knows.
            self._budget_told = passed

    def tell_end(self, state: RunState) -> None:
        """Notify that the run has stopped, and wait for a few seconds until all is sent."""
        self._send("end", state)
        until = time.monotonic() + _LAST_S
        for one in self._under_way:
            one.join(max(0.0, until - time.monotonic()))
        if any(one.is_alive() for one in self._under_way):
            self.warn("a notification could not be sent in time and is given up")

    def _is_budget_near(self, state: RunState) -> bool:
        cap, used = self.course.budget(state), bill(state.uses())
        of_usd = cap.usd is not None and used.priced_usd >= _BUDGET_SHARE * cap.usd
        tokens = used.input_tokens + used.output_tokens
        return of_usd or (cap.tokens is not None and tokens >= _BUDGET_SHARE * cap.tokens)

    def _send(self, occasion: Occasion, state: RunState) -> None:
        body = json.dumps(describe(occasion, self.course, state)).encode()
        thread = threading.Thread(target=self._deliver, args=(body,), daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self.warn("a notification could not be sent: this machine has no thread left for it")
        else:
            self._under_way.append(thread)

    def _deliver(self, body: bytes) -> None:
        send = _post if is_webhook(self.where) else _run
        why = ""
        for pause in _TRIES_AFTER_S:
            time.sleep(pause)
            why, again = send(self.where, body, self.key)
            if not why or not again:
                break
        if why:
            self.warn(f"a notification could not be sent: {why}")


def describe(occasion: Occasion, course: PlanIndex, state: RunState) -> Mapping[str, object]:
    """Return a notification. Its `text` is what chat systems show."""
    alive = Liveness(live=occasion != "end", now=state.at)
    wanted = attention(course, state, alive) if occasion != "budget" else []
    plan = course.plan.name
    verdict = plain_text(tell_verdict(course, state))
    said = {"attention": "a person is needed", "budget": "80 % of the budget are used", "end": "the run has stopped"}
    rows = [
        {"about": plain_text(one.about), "why": plain_text(one.sentence[:2000]), "command": plain_text(one.command)}
        for one in wanted[:_MOST_WANTED]
    ]
    lines = [f"{plan}: {said[occasion]}; {verdict}"]
    lines += [f"{row['about']}: {' '.join(row['why'].split())[:300]}: {row['command']}" for row in rows]
    return {
        "kind": f"forgepool.{occasion}",
        "run": state.run,
        "plan": plan,
        "target": plain_text(state.target),
        "tip": state.tip,
        "verdict": verdict,
        "wanted": rows,
        # Chat systems take `<...>` for links and calls to everybody.
        "text": html.escape("\n".join(lines), quote=False),
    }


def open_notifier(settings: Settings, course: PlanIndex, warn: Callable[[str], None]) -> Notifier | None:
    """
    Return the notifier of the settings; None where they name none.

    Raises:
        NotifyWrong: the URL is not one of http or https with a host, or the quiet hours are none.
    """
    where = settings.notify.get_secret_value().strip() if settings.notify else ""
    if not where:
        return None
    if "://" in where.partition(" ")[0] and not is_webhook(where):
        raise NotifyWrong("--notify is a URL of an unknown kind; give one of http:// or https://, or a command")
    key = settings.notify_key.get_secret_value().encode() if settings.notify_key else None
    return Notifier(where, key, course, warn, _quiet_hours(settings.notify_quiet))


def _quiet_hours(text: str) -> frozenset[int]:
    """Return the hours of a text such as `22-7`, the last one excluded."""
    hours = re.fullmatch(r"(\d{1,2})-(\d{1,2})", text.strip()) if text else None
    if text and (hours is None or max(int(hours[1]), int(hours[2])) > 24 or int(hours[1]) % 24 == int(hours[2]) % 24):
        raise NotifyWrong(f"FORGEPOOL_NOTIFY_QUIET is '{text}', which is no stretch of hours; give one such as 22-7")
    if hours is None:
        return frozenset()
    first, last = int(hours[1]), int(hours[2])
    return frozenset(hour % 24 for hour in range(first, last if first < last else last + 24))


def is_webhook(where: str) -> bool:
    """Tell a URL from a command."""
    try:
        parts = urlsplit(where)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and " " not in where


def sign_body(key: bytes, timestamp: str, body: bytes) -> str:
    return "sha256=" + hmac.new(key, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def _post(url: str, body: bytes, key: bytes | None) -> tuple[str, bool]:
    """Post once. Return why it failed, empty where it did not, and whether another try may do better."""
    import httpx2 as httpx

    timestamp = str(int(time.time()))
    headers = {"Content-Type": "application/json", "Forgepool-Timestamp": timestamp, "User-Agent": "forgepool"}
    if key is not None:
        headers["Forgepool-Signature"] = sign_body(key, timestamp, body)
    try:
        answer = httpx.post(url, content=body, headers=headers, timeout=_TRY_S, follow_redirects=False)
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as trouble:
        return f"{urlsplit(url).hostname}: {type(trouble).__name__}", True
    if answer.is_success:
        return "", False
    return f"{urlsplit(url).hostname} answers with status {answer.status_code}", answer.status_code >= 500


def _run(command: str, body: bytes, key: bytes | None) -> tuple[str, bool]:
    """Run the person's command once; it is not tried again."""
    try:
        status, _, errors = run_program(("/bin/sh", "-c", command), stdin=body, timeout_s=3 * _TRY_S)
    except OSError as trouble:
        return str(trouble), False
    said = " ".join(errors.decode(errors="replace").split())[-200:]
    return (f"the command exited with {status}" + (f": {said}" if said else ""), False) if status else ("", False)
