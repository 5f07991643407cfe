"""
Claude Code: `claude -p`, events as JSON lines. Seen with 2.1.329.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

from pydantic import JsonValue

from forgepool.workers.agents.cli.output import (
    Json,
    at,
    clip_object,
    clip_text,
    cost,
    count_at,
    failure,
    json_object,
    likely,
    number_at,
    object_at,
    objects_at,
    text_at,
)
from forgepool.workers.agents.cli.program import (
    ANTHROPIC,
    SPEECHLESS,
    CliAgentProgram,
    Closed,
    Event,
    Hopeless,
    ProgramFailure,
    ProgramInvocation,
    ProgramJob,
    Remarked,
    Returned,
    Spoke,
    Used,
    UsedInAll,
)
from forgepool.workers.llm.messages import Part, Text, ToolCall, ToolResult, Usage

_TOOLS = "Bash,Edit,Read,Write,Glob,Grep,NotebookEdit,TodoWrite"
"""Those that work on files and no others: no agent starts agents, none sleeps, none moves to another worktree."""
_SYNTHETIC = "<synthetic>"
"""The program's own words, where a model would have spoken."""
_ENV = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_MAX_RETRIES": "6",
}
_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
_IN_VAIN = 2
"""Times that a key was refused, after which it is not asked with again; the program itself goes on for long."""
_LIMITS = ("error_max_turns", "error_max_budget_usd")


def invoke(job: ProgramJob) -> ProgramInvocation:
    argv = [job.executable, "-p", "--output-format", "stream-json", "--verbose", "--no-session-persistence"]
    argv += ["--permission-mode", "acceptEdits", "--permission-prompts", "none"]
    argv += ["--tools", _TOOLS, "--allowedTools", _TOOLS]
    # A repository's own settings could name another server, which would be sent the key, and commands to run at start.
    argv += ["--setting-sources", "user", "--strict-mcp-config"]
    if job.model is not None:
        argv += ["--model", job.model]
    if job.limits.cost_usd is not None:
        argv += ["--max-budget-usd", f"{job.limits.cost_usd:.6f}"]
    return ProgramInvocation(argv=tuple(argv), env={**_ENV, **job.given}, stdin=job.prompt)


class ClaudeReader:
    def __init__(self, job: ProgramJob) -> None:
        self._resets_at: float | None = None

    def read(self, line: str) -> Iterable[Event]:
        event = json_object(line)
        if event is None:
            return (Remarked(text=line),)
        match text_at(event, "type"):
            case "assistant":
                return self._assistant(event)
            case "user":
                return self._user(event)
            case "system":
                return self._system(event)
            case "rate_limit_event":
                if text_at(event, "rate_limit_info", "status") == "rejected":
                    self._resets_at = likely(number_at(event, "rate_limit_info", "resetsAt"), time.time())
            case "result":
                return self._result(event)
        return ()

    def _assistant(self, event: Json) -> Iterator[Event]:
        message = object_at(event, "message")
        parts = tuple(part for block in objects_at(message, "content") for part in _part(block))
        if text_at(message, "model") == _SYNTHETIC:
            yield from (Remarked(text=part.text) for part in parts if isinstance(part, Text))
            return
        turn = text_at(message, "id")
        if parts:
            yield Spoke(parts=parts, turn=turn, model=text_at(message, "model"))
        yield Used(usage=_usage(at(message, "usage")), turn=turn)

    def _user(self, event: Json) -> Iterator[Event]:
        for block in objects_at(event, "message", "content"):
            match text_at(block, "type"):
                case "tool_result":
                    failed = at(block, "is_error") is True
                    text = clip_text(_result_text(at(block, "content")))
                    yield Returned(result=ToolResult(call_id=text_at(block, "tool_use_id"), text=text, is_error=failed))
                case "text":
                    yield Remarked(text=text_at(block, "text"))

    def _system(self, event: Json) -> Iterator[Event]:
        if text_at(event, "subtype") == "api_retry":
            why = f"{text_at(event, 'error')}, status {at(event, 'error_status')}"
            attempt = count_at(event, "attempt")
            yield Remarked(text=f"asks again, {attempt} of {count_at(event, 'max_retries')}: {why}")
            if text_at(event, "error") == "authentication_failed" and attempt >= _IN_VAIN:
                yield Hopeless(
                    failure=ProgramFailure(said=f"its key is not accepted ({why})", trouble="authentication")
                )
        elif content := text_at(event, "content"):
            yield Remarked(text=content)

    def _result(self, event: Json) -> Iterator[Event]:
        yield UsedInAll(usage=_whole_usage(event))
        summary = text_at(event, "result")
        is_success = text_at(event, "subtype") == "success" and at(event, "is_error") is False
        if is_success and summary.strip():
            yield Closed(summary=clip_text(summary))
        else:
            yield Closed(failure=SPEECHLESS if is_success else self._failure(event, summary))

    def _failure(self, event: Json, said: str) -> ProgramFailure:
        subtype = text_at(event, "subtype")
        if subtype in _LIMITS:
            return ProgramFailure(said=f"it reached its limit ({subtype})", ended="limits")
        if text_at(event, "stop_reason") == "refusal":
            return ProgramFailure(said=said or "its model refused", ended="refused")
        status = number_at(event, "api_error_status")
        codes = [text_at(event, key) for key in ("api_error_code", "api_error", "api_error_type")]
        said = said or f"{subtype or 'no reason'} ({text_at(event, 'terminal_reason')})"
        found = failure(said, status=None if status is None else int(status), codes=filter(None, codes))
        if found.trouble != "usage_limit" or self._resets_at is None:
            return found
        return ProgramFailure(said=said, trouble="usage_limit", resets_at=self._resets_at)


def _part(block: Json) -> Iterator[Part]:
    match text_at(block, "type"):
        case "text":
            yield Text(text=clip_text(text_at(block, "text")))
        case "tool_use":
            arguments = clip_object(object_at(block, "input"))
            yield ToolCall(id=text_at(block, "id"), name=text_at(block, "name"), arguments=arguments)


def _result_text(content: JsonValue) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(text_at(block, "text") or f"[{text_at(block, 'type')}]" for block in objects_at({"": content}, ""))


def _usage(usage: JsonValue) -> Usage:
    """Of one answer, when it began: what it will come to in all is not told before the end."""
    cached, written = count_at(usage, "cache_read_input_tokens"), count_at(usage, "cache_creation_input_tokens")
    return Usage(
        input_tokens=count_at(usage, "input_tokens") + cached + written,
        cached_tokens=cached,
        written_tokens=written,
        output_tokens=count_at(usage, "output_tokens"),
        cost_usd=None,
    )


def _whole_usage(event: Json) -> Usage:
    """Of all models it asked, those for small things included."""
    uses = list(object_at(event, "modelUsage").values())
    cached = sum(count_at(use, "cacheReadInputTokens") for use in uses)
    written = sum(count_at(use, "cacheCreationInputTokens") for use in uses)
    return Usage(
        input_tokens=sum(count_at(use, "inputTokens") for use in uses) + cached + written,
        cached_tokens=cached,
        written_tokens=written,
        output_tokens=sum(count_at(use, "outputTokens") for use in uses),
        cost_usd=cost(number_at(event, "total_cost_usd")),
    )


CLAUDE = CliAgentProgram(
    name="claude",
    install="npm install -g @anthropic-ai/claude-code",
    vendors=lambda model: (replace(ANTHROPIC, keys=_KEYS),),
    invoke=invoke,
    reader=ClaudeReader,
)
