"""
aider: one message, plain text out. Seen with 0.86.2.

It has no events, and status 0 whatever happens. Its report of tokens, printed after each answer of the model, is what
comes closest to an end that is told; its numbers are rounded to two or three digits.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator

from forgepool.workers.agents.cli.output import clip_text, cost, failure
from forgepool.workers.agents.cli.program import (
    ANTHROPIC,
    OPENAI,
    SPEECHLESS,
    CliAgentProgram,
    Closed,
    Event,
    Hopeless,
    ProgramFailure,
    ProgramInvocation,
    ProgramJob,
    Remarked,
    Spoke,
    Used,
    vendors_by_prefix,
)
from forgepool.workers.llm.messages import Text, Usage

_ADDRESSES = {
    OPENAI.address: (("OPENAI_API_BASE", "OPENAI_BASE_URL"), "https://api.openai.com/v1"),
    ANTHROPIC.address: (("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"), "https://api.anthropic.com"),
}
_BANNER = re.compile(
    r"Aider v|(Main |Weak )?[Mm]odel: |Git repo: |Repo-map: |Analytics have|Detected dumb|Update git (name|email)"
    r"|https://aider\.chat/|HTTPSConnectionPool|Warning|Added .* to the chat|Applied edit to|Retrying in|Use /help"
)
_REPORT = re.compile(
    r"Tokens: (?P<sent>[\d.,]+[kM]?) sent(?:, (?P<write>[\d.,]+[kM]?) cache write)?"
    r"(?:, (?P<hit>[\d.,]+[kM]?) cache hit)?, (?P<received>[\d.,]+[kM]?) received\."
    r"(?: Cost: \$(?P<cost>[\d.]+) message, \$[\d.]+ session\.)?"
)
_ERROR = re.compile(r"litellm\.\w*(Error|Timeout|Exception)\b|Model \S+ has hit a token limit")
_GAVE_UP = re.compile(r"Only \d+ reflections allowed|Empty response received from LLM")
_EDITED = re.compile(r"Applied edit to ")
_MOST_LINES = 2_000
_MOST_ERROR_LINES = 20
_UNFINISHED = ProgramFailure(said="it went on after its report of tokens, and did not end with one")
_TIMES = {"k": 1_000, "M": 1_000_000}


def invoke(job: ProgramJob) -> ProgramInvocation:
    argv = [job.executable, "--message-file", str(job.prompt), "--yes-always", "--no-stream", "--no-pretty"]
    argv += [
        "--no-auto-commits",
        "--no-dirty-commits",
        "--no-gitignore",
        "--no-check-update",
        "--no-show-release-notes",
    ]
    argv += ["--analytics-disable", "--no-show-model-warnings", "--no-suggest-shell-commands", "--no-detect-urls"]
    for option in ("chat-history-file", "input-history-file", "llm-history-file"):
        argv += [f"--{option}", str(job.tmp / f"aider-{option}")]
    for name, (variables, usual) in _ADDRESSES.items():
        # Said last, so that no `.env` of the repository names another server, which would be sent the key.
        for variable in variables:
            argv += ["--set-env", f"{variable}={job.given.get(name, usual)}"]
    if job.model is not None:
        argv += ["--model", job.model]
    keys = {name: value for name, value in job.given.items() if name not in _ADDRESSES}
    return ProgramInvocation(argv=tuple(argv), env={**keys, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "COLUMNS": "1000"})


class AiderReader:
    def __init__(self, job: ProgramJob) -> None:
        self._speaker = job.speaker
        self._said: deque[str] = deque(maxlen=_MOST_LINES)
        self._error: list[str] = []
        self._gave_up = ""
        self._answers = 0
        self._closed: Closed | None = None

    def read(self, line: str) -> Iterable[Event]:
        if self._error:
            return self._go_on_with_error(line)
        if _ERROR.match(line):
            self._error.append(clip_text(line))
            return self._on_error()
        if match := _REPORT.match(line):
            return self._answered(match)
        if _GAVE_UP.match(line):
            self._gave_up = line
            return (Closed(failure=ProgramFailure(said=line)),)
        if _EDITED.match(line) and self._closed is not None:
            # It has told which file before that, which is no part of an answer.
            self._said.clear()
            return (Remarked(text=line), self._closed)
        if _BANNER.match(line) or not (line.strip() or self._said):
            return (Remarked(text=line),) if line.strip() else ()
        self._said.append(clip_text(line))
        # What looked like a report may have been a line of the answer: the last thing said must be one.
        return (Closed(failure=_UNFINISHED),) if self._closed is not None else ()

    def _go_on_with_error(self, line: str) -> Iterator[Event]:
        """An error lasts until an empty line."""
        if line.strip() and not _BANNER.match(line):
            if len(self._error) == _MOST_ERROR_LINES:
                return
            self._error.append(clip_text(line))
            yield from self._on_error()
        else:
            self._error = []

    def _on_error(self) -> Iterator[Event]:
        found = failure(" ".join(self._error))
        yield Closed(failure=found)
        if found.trouble == "usage_limit":
            # It would go on asking, for a minute or for hours.
            yield Hopeless(failure=found)

    def _answered(self, report: re.Match[str]) -> Iterator[Event]:
        """What was printed since the last report is the answer."""
        self._answers += 1
        text = clip_text("\n".join(self._said).strip())
        self._said.clear()
        turn = str(self._answers)
        if text:
            yield Spoke(parts=(Text(text=text),), turn=turn, model=self._speaker)
        yield Used(usage=_usage(report), turn=turn)
        gave_up, self._gave_up = self._gave_up, ""
        if gave_up:
            self._closed = Closed(failure=ProgramFailure(said=gave_up))
        else:
            self._closed = Closed(summary=text) if text else Closed(failure=SPEECHLESS)
        yield self._closed


def _usage(report: re.Match[str]) -> Usage:
    return Usage(
        input_tokens=_count(report["sent"]),
        cached_tokens=_count(report["hit"]),
        written_tokens=_count(report["write"]),
        output_tokens=_count(report["received"]),
        # Left out where it knows no price.
        cost_usd=cost(_number(report["cost"])),
    )


def _count(text: str | None) -> int:
    number = _number((text or "").rstrip("kM").replace(",", ""))
    return 0 if text is None or number is None else round(number * _TIMES.get(text[-1], 1))


def _number(text: str | None) -> float | None:
    """None where it is none, or one that nobody counts to."""
    return float(text) if text is not None and re.fullmatch(r"\d{1,11}(\.\d{1,20})?", text) else None


AIDER = CliAgentProgram(
    name="aider",
    install="uv tool install --python 3.12 aider-chat",
    vendors=vendors_by_prefix,
    invoke=invoke,
    reader=AiderReader,
    litter=".aider*",
)
