"""
opencode: `opencode run --format json`. Seen with 1.18.33.
"""

import json
from collections.abc import Iterable, Iterator, Mapping

from pydantic import JsonValue

from forgepool.workers.agents.cli.output import (
    Json,
    clip_object,
    clip_text,
    cost,
    count_at,
    failure,
    json_object,
    number_at,
    object_at,
    text_at,
)
from forgepool.workers.agents.cli.program import (
    ANTHROPIC,
    OPENAI,
    SPEECHLESS,
    CliAgentProgram,
    Closed,
    Event,
    ProgramFailure,
    ProgramInvocation,
    ProgramJob,
    Remarked,
    Returned,
    Spoke,
    Used,
    vendors_by_prefix,
)
from forgepool.workers.llm.messages import Text, ToolCall, ToolResult, Usage
from forgepool.workers.llm.wires import faults

_ENV = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    # A repository's own configuration could name another server, which would be sent the key.
    "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
}
_TITLE_CHARACTERS = 80


def invoke(job: ProgramJob) -> ProgramInvocation:
    argv = [job.executable, "run", "--format", "json", "--pure", "--auto", "--dir", str(job.worktree)]
    # With a title it does not ask a model for one.
    argv += ["--title", f"task: {job.title}"[:_TITLE_CHARACTERS]]
    if job.model is not None:
        argv += ["-m", job.model]
    keys = {name: value for name, value in job.given.items() if name not in (ANTHROPIC.address, OPENAI.address)}
    env = {**_ENV, **keys, "OPENCODE_CONFIG_CONTENT": json.dumps(_configuration(job))}
    if keys != job.given:
        env["OPENCODE_DISABLE_MODELS_FETCH"] = "1"
    return ProgramInvocation(argv=tuple(argv), env=env, stdin=job.prompt)


def _configuration(job: ProgramJob) -> dict[str, JsonValue]:
    vendor, _, model = (job.model or "").partition("/")
    providers: dict[str, JsonValue] = {}
    for name, address in _addresses(job.given):
        # A model of another server has to be declared; one that is known keeps what is known of it.
        models: dict[str, JsonValue] = {model: {}} if model and vendor == name else {}
        providers[name] = {"options": {"baseURL": address}, "models": models}
    return {"autoupdate": False, "share": "disabled", "tools": {"task": False}, "provider": providers}


def _addresses(given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """By the program's name for the vendor; it wants Anthropic's with the version in it, as OpenAI's has it."""
    if address := given.get(ANTHROPIC.address):
        yield "anthropic", address.rstrip("/").removesuffix("/v1") + "/v1"
    if address := given.get(OPENAI.address):
        yield "openai", address


class OpencodeReader:
    def __init__(self, job: ProgramJob) -> None:
        self._speaker = job.speaker
        self._last_words = ""

    def read(self, line: str) -> Iterable[Event]:
        event = json_object(line)
        if event is None:
            return (Remarked(text=line),)
        part = object_at(event, "part")
        match text_at(event, "type"):
            case "step_start":
                self._last_words = ""
            case "text":
                return self._text(part)
            case "tool_use":
                return self._tool(part)
            case "step_finish":
                return self._step(part)
            case "error":
                return (Closed(failure=_failure(object_at(event, "error"))),)
        return ()

    def _text(self, part: Json) -> Iterator[Event]:
        text = clip_text(text_at(part, "text"))
        self._last_words = clip_text(self._last_words + text)
        yield Spoke(parts=(Text(text=text),), turn=text_at(part, "messageID"), model=self._speaker)

    def _tool(self, part: Json) -> Iterator[Event]:
        """Told when it is over, with its result."""
        name, state = text_at(part, "callID"), object_at(part, "state")
        arguments = clip_object(object_at(state, "input"))
        call = ToolCall(id=name, name=text_at(part, "tool"), arguments=arguments)
        yield Spoke(parts=(call,), turn=text_at(part, "messageID"), model=self._speaker)
        failed = text_at(state, "status") == "error"
        text = clip_text(text_at(state, "error" if failed else "output"))
        yield Returned(result=ToolResult(call_id=name, text=text, is_error=failed))

    def _step(self, part: Json) -> Iterator[Event]:
        yield Used(usage=_usage(part), turn=text_at(part, "messageID"))
        match text_at(part, "reason"):
            case "stop":
                spoke = bool(self._last_words.strip())
                yield Closed(summary=self._last_words) if spoke else Closed(failure=SPEECHLESS)
            case "tool-calls":
                return
            case "content-filter":
                yield Closed(failure=ProgramFailure(said=self._last_words or "its model refused", ended="refused"))
            case "length":
                yield Closed(failure=ProgramFailure(said="its model's last answer was cut off at its length limit"))
            case reason:
                yield Closed(failure=ProgramFailure(said=f"its model's last answer ended by '{reason}'"))


def _usage(part: Json) -> Usage:
    tokens = object_at(part, "tokens")
    cached, written = count_at(tokens, "cache", "read"), count_at(tokens, "cache", "write")
    reasoning = count_at(tokens, "reasoning")
    return Usage(
        input_tokens=count_at(tokens, "input") + cached + written,
        cached_tokens=cached,
        written_tokens=written,
        # It tells them apart: together they are the answer.
        output_tokens=count_at(tokens, "output") + reasoning,
        reasoning_tokens=reasoning,
        # It says 0 of a model whose price it does not know.
        cost_usd=cost(number_at(part, "cost")) or None,
    )


def _failure(error: Json) -> ProgramFailure:
    name, said = text_at(error, "name"), text_at(error, "data", "message") or text_at(error, "message")
    said = said or name or "no reason given"
    if name == "ContentFilterError":
        return ProgramFailure(said=said, ended="refused")
    if name == "ContextOverflowError":
        return ProgramFailure(said=said, trouble="overflow")
    if name in ("ProviderAuthError", "ProviderInitError"):
        return ProgramFailure(said=said, trouble="authentication")
    status = number_at(error, "data", "statusCode")
    codes = faults.from_body(json_object(text_at(error, "data", "responseBody")) or {}).codes
    headers = object_at(error, "data", "responseHeaders")
    return failure(
        said,
        status=None if status is None else int(status),
        codes=codes,
        headers={key: value for key, value in headers.items() if isinstance(value, str)},
    )


OPENCODE = CliAgentProgram(
    name="opencode",
    install="npm install -g opencode-ai",
    vendors=vendors_by_prefix,
    invoke=invoke,
    reader=OpencodeReader,
)
