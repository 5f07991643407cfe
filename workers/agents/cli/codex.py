"""
Codex: `codex exec --json`. Seen with 0.169.0.
"""

import json
from collections.abc import Iterable, Iterator

from forgepool.workers.agents.cli.output import (
    Json,
    at,
    clip_object,
    clip_text,
    count_at,
    failure,
    json_object,
    object_at,
    text_at,
)
from forgepool.workers.agents.cli.program import (
    OPENAI,
    SPEECHLESS,
    CliAgentProgram,
    Closed,
    Event,
    ProgramInvocation,
    ProgramJob,
    Remarked,
    Returned,
    Spoke,
    UsedInAll,
)
from forgepool.workers.llm.messages import Text, ToolCall, ToolResult, Usage

_NOT_TOOLS = ("agent_message", "reasoning", "error", "todo_list")
_FACTS = ("id", "type", "status", "aggregated_output", "exit_code", "result", "error")
"""Of a tool's item, what are not its arguments."""


def invoke(job: ProgramJob) -> ProgramInvocation:
    folder = job.home / ".codex"
    folder.mkdir(exist_ok=True)
    argv = [job.executable, "exec", "--json", "--ephemeral", "--skip-git-repo-check", "--color", "never"]
    # Inside our sandbox, which refuses namespaces, its own cannot be set up.
    own = "danger-full-access" if job.confined else "workspace-write"
    argv += ["-C", str(job.worktree), "-s", own, "--ignore-rules"]
    settings = [
        'approval_policy="never"',
        # Its commands do not see the key, and write nothing in the folder all programs share.
        'shell_environment_policy.exclude=["OPENAI_API_KEY","CODEX_API_KEY"]',
        "sandbox_workspace_write.exclude_slash_tmp=true",
        *_server(job.given.get(OPENAI.address)),
    ]
    argv += [word for setting in settings for word in ("-c", setting)]
    if job.model is not None:
        argv += ["-m", job.model]
    key = job.given.get("OPENAI_API_KEY", "")
    env = {"CODEX_HOME": str(folder), "OPENAI_API_KEY": key, "CODEX_API_KEY": key}
    return ProgramInvocation(argv=(*argv, "-"), env=env, stdin=job.prompt)


def _server(address: str | None) -> Iterator[str]:
    """It does not look at OPENAI_BASE_URL: another server is a provider of its own."""
    if address is not None:
        yield 'model_provider="forgepool"'
        provider = f'name="forgepool",base_url={json.dumps(address)},wire_api="responses",env_key="OPENAI_API_KEY"'
        yield f"model_providers.forgepool={{{provider}}}"


class CodexReader:
    def __init__(self, job: ProgramJob) -> None:
        self._speaker = job.speaker
        self._begun: set[str] = set()
        self._last_words = ""
        self._usage = Usage(cost_usd=None)

    def read(self, line: str) -> Iterable[Event]:
        event = json_object(line)
        if event is None:
            return (Remarked(text=line),)
        match text_at(event, "type"):
            case "item.started":
                return self._started(object_at(event, "item"))
            case "item.completed":
                return self._completed(object_at(event, "item"))
            case "error":
                return (Remarked(text=text_at(event, "message")),)
            case "turn.completed":
                return self._done(object_at(event, "usage"))
            case "turn.failed":
                return (Closed(failure=failure(text_at(event, "error", "message") or "no reason given")),)
        return ()

    def _started(self, item: Json) -> Iterator[Event]:
        kind, name = text_at(item, "type"), text_at(item, "id")
        if kind in _NOT_TOOLS or name in self._begun:
            return
        self._begun.add(name)
        self._last_words = ""
        arguments = clip_object({key: value for key, value in item.items() if key not in _FACTS})
        yield Spoke(parts=(ToolCall(id=name, name=kind, arguments=arguments),), model=self._speaker)

    def _completed(self, item: Json) -> Iterator[Event]:
        match text_at(item, "type"):
            case "agent_message":
                self._last_words = clip_text(text_at(item, "text"))
                yield Spoke(parts=(Text(text=self._last_words),), model=self._speaker)
            case "error":
                yield Remarked(text=text_at(item, "message"))
            case "reasoning" | "todo_list":
                return
            case _:
                yield from self._started(item)
                yield Returned(result=_result(item))

    def _done(self, usage: Json) -> Iterator[Event]:
        self._usage = Usage(
            input_tokens=self._usage.input_tokens + count_at(usage, "input_tokens"),
            cached_tokens=self._usage.cached_tokens + count_at(usage, "cached_input_tokens"),
            written_tokens=self._usage.written_tokens + count_at(usage, "cache_write_input_tokens"),
            output_tokens=self._usage.output_tokens + count_at(usage, "output_tokens"),
            reasoning_tokens=self._usage.reasoning_tokens + count_at(usage, "reasoning_output_tokens"),
            cost_usd=None,
        )
        yield UsedInAll(usage=self._usage)
        # A refusal looks like this too: status 0, and not a word.
        spoke = bool(self._last_words.strip())
        yield Closed(summary=self._last_words) if spoke else Closed(failure=SPEECHLESS)


def _result(item: Json) -> ToolResult:
    status = at(item, "exit_code")
    failed = text_at(item, "status") == "failed" or status not in (None, 0)
    found = next((value for key in ("aggregated_output", "result", "error") if (value := at(item, key))), None)
    text = found if isinstance(found, str) else json.dumps(found) if found is not None else text_at(item, "status")
    return ToolResult(call_id=text_at(item, "id"), text=clip_text(text), is_error=failed)


CODEX = CliAgentProgram(
    name="codex",
    install="npm install -g @openai/codex",
    vendors=lambda model: (OPENAI,),
    invoke=invoke,
    reader=CodexReader,
)
