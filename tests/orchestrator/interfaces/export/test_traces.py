"""A run becomes one trace that a collector takes, the same each time, and says by the conventions what failed."""

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import opentelemetry.semconv._incubating.attributes as semconv
import pytest
from kit import Machine, Ran
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from span_collector import SpanCollector
from written_runs import BEGAN, fail_task, land_task, written_run

from forgepool.orchestrator.interfaces.export.conventions import ATTRIBUTES, FIXED
from forgepool.workers.context.transcript.entries import Answered, ConversationStarted, Transcript, TurnSaid
from forgepool.workers.llm.messages import ToolCall, ToolResult, Turn, Usage
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.workspace import TRANSCRIPT, attempt_logs


@pytest.fixture
def collector() -> Iterator[SpanCollector]:
    with SpanCollector() as serving:
        Thread(target=serving.serve_forever, daemon=True).start()
        yield serving
        serving.shutdown()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(folder=tmp_path, name="host-1")
    with written_run(Settings(home=machine.home, cache=machine.cache), "abc", [*land_task("a"), *fail_task("b")]):
        return machine


def export(machine: Machine, *argv: str | Path) -> Ran:
    return machine.run("export", "r-1", *argv)


def facts(span: Span) -> dict[str, str | int | float]:
    found = {}
    for one in span.attributes:
        kind = one.value.WhichOneof("value")
        assert kind is not None
        found[one.key] = getattr(one.value, kind)
    return found


def test_a_collector_gets_the_tree_of_a_run_and_a_second_export_gives_the_same(
    machine: Machine, collector: SpanCollector
) -> None:
    said = export(machine, "--otlp", f"http://127.0.0.1:{collector.server_port}", "--file", "spans.json")
    assert (said.status, collector.paths) == (0, ["/v1/traces"]), said
    first = list(collector.taken)
    by_id = {span.span_id: span for span in first}
    assert len(by_id) == len(first) == 11 and {span.trace_id.hex() for span in first} == {said.out.split()[-1]}

    def path(span: Span) -> list[str]:
        return [*(path(by_id[span.parent_span_id]) if span.parent_span_id else []), span.name]

    tree = {"/".join(path(span)): span for span in first}
    assert sorted(tree) == sorted(
        ["RUN p", "RUN p/a", "RUN p/a/attempt 1", "RUN p/b", "RUN p/b/attempt 1"]
        + [f"RUN p/a/attempt 1/{one}" for one in ("invoke_agent builtin", "check", "review", "land")]
        + [f"RUN p/b/attempt 1/{one}" for one in ("invoke_agent builtin", "check")]
    )
    order = tree["RUN p/a/attempt 1/invoke_agent builtin"]
    assert (order.start_time_unix_nano, order.end_time_unix_nano) == (int(BEGAN * 1e9), int((BEGAN + 30) * 1e9))
    known = facts(order)
    assert {
        "gen_ai.response.model": "claude-x",
        "gen_ai.usage.input_tokens": 1000,
        "forgepool.cost_usd": 0.25,
        "cicd.worker.name": "h/7",
    }.items() <= known.items()
    attempt = tree["RUN p/b/attempt 1"]
    assert attempt.status.code == 2 and attempt.status.message == "'tests' is red: 1 test failed"
    assert facts(attempt)["error.type"] == "check_failed"
    failed = {name for name, span in tree.items() if span.status.code == 2}
    assert failed == {"RUN p/b", "RUN p/b/attempt 1", "RUN p/b/attempt 1/check"}
    written = json.loads((machine.folder / "spans.json").read_text())
    (scope,) = written["resourceSpans"][0]["scopeSpans"]
    assert {span["spanId"] for span in scope["spans"]} == {span.span_id.hex() for span in first}
    collector.taken.clear()
    export(machine, "--otlp", f"http://127.0.0.1:{collector.server_port}/v1/traces")
    assert collector.taken == first


def test_a_collector_that_refuses_is_told_in_one_sentence(
    machine: Machine, collector: SpanCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector.status = 403
    refused = export(machine, "--otlp", f"http://127.0.0.1:{collector.server_port}")
    assert (refused.status, refused.out, refused.err.count("\n")) == (3, "", 1)
    assert "127.0.0.1 has not taken the spans" in refused.err and "403" in refused.err
    for url in ("http://[", "localhost"):
        no_url = export(machine, "--otlp", url)
        assert (no_url.status, no_url.err.count("\n"), "which is no URL" in no_url.err) == (2, 1, True), no_url
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "-4")
    limited = export(machine, "--file", "spans.json")
    assert (limited.status, limited.err.count("\n"), "refuses a variable OTEL_*" in limited.err) == (2, 1, True), (
        limited
    )
    nowhere = export(machine)
    assert (nowhere.status, "--otlp URL or --file FILE" in nowhere.err) == (2, True)


def test_attributes_are_of_the_conventions_or_bear_our_name() -> None:
    keys = {*ATTRIBUTES.values(), *(key for fixed in FIXED.values() for key in fixed)}
    assert {key.partition(".")[0] for key in keys} == {"cicd", "vcs", "gen_ai", "forgepool"}
    folder = Path(semconv.__path__[0])
    text = "".join((folder / f"{room}_attributes.py").read_text() for room in ("cicd", "vcs", "gen_ai"))
    assert [key for key in keys if not key.startswith("forgepool.") and f'"{key}"' not in text] == []


def test_an_order_has_the_answers_of_models_and_the_calls_of_tools_that_its_own_transcript_tells(
    machine: Machine,
) -> None:
    turn = Turn(
        role="assistant",
        parts=(ToolCall(id="c1", name="bash"),),
        model="claude-x",
        usage=Usage(input_tokens=900, cached_tokens=400, output_tokens=70, cost_usd=0.2),
    )
    path = attempt_logs(machine.home / "runs" / "r-1", "a", 1) / TRANSCRIPT
    with Transcript(path) as transcript:
        for at, order in ((BEGAN - 100, "r-1.a.0"), (BEGAN + 1, "r-1.a.1")):
            transcript.append(ConversationStarted(at=at, order_id=order, model="claude-x", system=(), tools=("bash",)))
            transcript.append(TurnSaid(at=at + 5, turn=turn))
            result = ToolResult(call_id="c1", text="1 failed", is_error=True)
            transcript.append(Answered(at=at + 8, iteration=1, seconds=2.0, result=result))
    said = export(machine, "--file", "spans.json")
    assert said.status == 0, said
    (scope,) = json.loads((machine.folder / "spans.json").read_text())["resourceSpans"][0]["scopeSpans"]
    by_name = {span["name"]: span for span in scope["spans"]}
    assert len(scope["spans"]) == 13, "the other order's conversation is that order's"
    chat, tool = by_name["chat claude-x"], by_name["execute_tool bash"]
    orders = {span["spanId"] for span in scope["spans"] if span["name"] == "invoke_agent builtin"}
    assert chat["parentSpanId"] == tool["parentSpanId"] and chat["parentSpanId"] in orders
    seconds = [int(one[key]) / 1e9 - BEGAN for one in (chat, tool) for key in ("startTimeUnixNano", "endTimeUnixNano")]
    assert seconds == pytest.approx([1.0, 6.0, 7.0, 9.0])
    known = {one["key"]: one["value"] for one in chat["attributes"]}
    assert known["gen_ai.operation.name"] == {"stringValue": "chat"}
    assert known["gen_ai.usage.cache_read.input_tokens"] == {"intValue": "400"}
    assert tool["status"]["code"] == 2 and "code" not in chat["status"]
    path.write_text("no transcript of ours\n")
    assert export(machine, "--file", "spans.json").out.startswith("run r-1: 11 spans")
