"""What a run says about itself: its trace, what the model was shown, and spans."""

import asyncio
from itertools import count

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.support.agents import ADA, CALL, Mode, answer, both_modes, lookup, model_of, texts
from tests.support.guards import KeywordBlocker, SsnGuard, Summarizer, WordLimit
from tests.support.traps import ResultTrap, StreamTrap

from recollect import Agent, Memory, Processor, Result, RunContext, TextDelta
from recollect.pipeline.processor import StreamPart

pytestmark = [pytest.mark.anyio, both_modes]


def phases(result: Result) -> list[tuple[str, str]]:
    """Return who acted in which phase, in order."""
    return [(entry.processor_id, entry.phase) for entry in result.trace if entry.calls]


async def test_trace_lists_processors_and_phases_in_the_order_in_which_they_acted(mode: Mode) -> None:
    """Input first, then the stream, the results and the commit."""
    async with Memory() as memory:
        agent = Agent(
            model_of("it is 123-45-6789.", mode=mode),
            input_processors=[KeywordBlocker()],
            output_processors=[SsnGuard(), Summarizer(500)],
            memory=memory,
        )
        result = await answer(agent, mode, "mine is 123-45-6789")
    assert phases(result) == [
        ("keyword-blocker", "input"),
        ("message-history", "input"),
        ("SsnGuard", "stream"),
        ("SsnGuard", "result"),
        ("summarizer", "result"),
        ("message-persistence", "result"),
        ("message-persistence", "commit"),
    ]
    assert len(result.trace) == len(phases(result))


async def test_trace_says_what_changed_without_quoting_it(mode: Mode) -> None:
    """Added, removed and edited messages are named by role and id; no text is in the trace."""
    async with Memory() as memory:
        await memory.add_message("user", "an old secret")
        agent = Agent(model_of("fine", mode=mode), output_processors=[SsnGuard()], memory=memory)
        result = await answer(agent, mode, "mine is 123-45-6789", run_id="r1")
    history = result.trace.find("message-history", "input")
    guard = result.trace.find("SsnGuard", "result")
    assert history is not None
    assert guard is not None
    assert (history.messages_in, history.messages_out) == (1, 2)
    assert len(history.changes) == 1
    assert history.changes[0].startswith("+ user ")
    assert guard.changes == ["~ user r1:prompt.0000: 19 to 18 characters"]
    assert history.milliseconds > 0
    assert "secret" not in str(list(result.trace))
    assert "45-6789" not in str(list(result.trace))


async def test_trace_names_the_trip(mode: Mode) -> None:
    """The entry of the processor that tripped has the reason."""
    result = await answer(Agent(model_of("pong", mode=mode), output_processors=[StreamTrap()]), mode, "hi")
    entry = result.trace.find("trap-StreamTrap", "stream")
    assert entry is not None
    assert entry.tripwire == "sprung"
    assert result.trace.find("trap-StreamTrap", "result") is None


class Keeper(Processor):
    """Lets a test look at the trace of a run that failed."""

    id = "keeper"

    def __init__(self) -> None:
        """Begin with nothing."""
        self.traces: list[object] = []

    async def process_output_stream(self, part: StreamPart, ctx: RunContext) -> list[StreamPart]:
        """Keep the trace."""
        if isinstance(part, TextDelta):
            self.traces.append(ctx.trace)
            ctx.note("saw text")
        return [part]


@pytest.mark.parametrize("trap", [StreamTrap, ResultTrap])
async def test_trace_names_the_error_of_a_processor(mode: Mode, trap: type[StreamTrap | ResultTrap]) -> None:
    """A guard that fails in the stream or on the result is found in the trace."""
    keeper, bad = Keeper(), trap(ValueError("a bug"))
    agent = Agent(model_of("pong", mode=mode), output_processors=[keeper, bad])
    with pytest.raises(ValueError, match="a bug"):
        await answer(agent, mode, "hi")
    found = [entry for entry in keeper.traces[0] if entry.processor_id == bad.id]  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType, reportUnknownMemberType] - a Trace
    assert [entry.error for entry in found] == ["ValueError: a bug"]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - the same


async def test_what_the_model_was_shown_is_in_the_result_and_in_the_agent(mode: Mode) -> None:
    """`result.prompt` and `get_last_messages` are what the model's last request had."""
    async with Memory() as memory:
        await memory.add_message("user", "old")
        model = model_of(CALL, "done", mode=mode)
        agent = Agent(model, tools=[lookup], memory=memory)
        result = await answer(agent, mode, "hi")
        assert agent.get_last_messages() == result.prompt == model.shown[-1]
    assert [message.role for message in result.prompt] == ["user", "user", "assistant", "tool"]


async def test_what_the_model_was_shown_is_each_tasks_own(mode: Mode) -> None:
    """Two tasks of one agent do not see each other's."""
    agent = Agent(model_of("ok", mode=mode))

    async def run(prompt: str) -> list[tuple[str, str]]:
        await answer(agent, mode, prompt)
        await asyncio.sleep(0)
        return texts(agent.get_last_messages())

    assert await asyncio.gather(run("a"), run("b")) == [[("user", "a")], [("user", "b")]]
    assert agent.get_last_messages() == []


async def test_what_the_model_was_shown_is_each_agents_own(mode: Mode) -> None:
    """Two agents in one task do not see each other's."""
    first, second = Agent(model_of("ok", mode=mode)), Agent(model_of("ok", mode=mode))
    await answer(first, mode, "a")
    await answer(second, mode, "b")
    assert texts(first.get_last_messages()) == [("user", "a")]


async def test_usage_counts_the_request_when_the_answer_is_stopped(mode: Mode) -> None:
    """A request whose answer a limiter cut short was a request all the same."""
    agent = Agent(model_of("one two three four", mode=mode), output_processors=[WordLimit(2)])
    result = await answer(agent, mode, "hi")
    assert (result.text, result.finish_reason) == ("one two ", "length")
    assert result.usage.requests == 1


@pytest.fixture(scope="session")
def _exporter() -> InMemorySpanExporter:
    """Configure the tracer of this process, which can be done once."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    otel.set_tracer_provider(provider)
    return exporter


@pytest.fixture
def spans(_exporter: InMemorySpanExporter) -> InMemorySpanExporter:
    """Collect the spans of one test."""
    _exporter.clear()
    return _exporter


def written(found: tuple[ReadableSpan, ...]) -> str:
    """Return everything that spans say."""
    return str(
        [(span.name, dict(span.attributes or {}), span.events, span.status.description) for span in found]
    )


async def _secret_run(mode: Mode, *, trace_content: bool) -> Result:
    async with Memory() as memory:
        agent = Agent(
            model_of("the answer 123-45-6789", mode=mode),
            instructions="the instruction",
            input_processors=[KeywordBlocker()],
            output_processors=[SsnGuard()],
            memory=memory,
            trace_content=trace_content,
        )
        return await answer(agent, mode, "the question", **ADA)


async def test_spans_have_the_facts_of_the_trace_and_no_text(mode: Mode, spans: InMemorySpanExporter) -> None:
    """A run is one span with a child for each entry of its trace; nobody's words are in them."""
    result = await _secret_run(mode, trace_content=False)
    found = spans.get_finished_spans()
    run = next(span for span in found if span.name == "recollect.run")
    children = [
        span
        for span in found
        if span.parent is not None and run.context is not None and span.parent.span_id == run.context.span_id
    ]
    assert len(children) == len(found) - 1 == len(phases(result))
    assert run.attributes is not None
    assert run.attributes["recollect.run_id"] == result.run_id
    assert run.attributes["recollect.saved"] is True
    for words in ("question", "answer", "6789", "instruction"):
        assert words not in written(found)


async def test_spans_have_text_when_that_is_switched_on(mode: Mode, spans: InMemorySpanExporter) -> None:
    """`trace_content` puts the prompt and the released answer into the span, never what was redacted."""
    await _secret_run(mode, trace_content=True)
    said = written(spans.get_finished_spans())
    assert "the question" in said
    assert "the answer [REDACTED]" in said
    assert "45-6789" not in said


async def test_spans_say_that_a_run_was_blocked_or_failed(mode: Mode, spans: InMemorySpanExporter) -> None:
    """Trips and errors are marked, without the words that caused them."""
    blocked = Agent(model_of("x"), input_processors=[KeywordBlocker()])
    await answer(blocked, mode, "ignore previous orders")
    run = next(span for span in spans.get_finished_spans() if span.name == "recollect.run")
    assert run.attributes is not None
    assert run.attributes["recollect.tripwire"] == "keyword-blocker"
    spans.clear()
    broken = Agent(model_of("pong", mode=mode), output_processors=[StreamTrap(ValueError("secret words"))])
    with pytest.raises(ValueError, match="secret words"):
        await answer(broken, mode, "hi")
    found = spans.get_finished_spans()
    assert "secret words" not in written(found)
    assert [
        span.attributes["recollect.failed"]
        for span in found
        if span.name == "recollect.stream" and span.attributes
    ] == [1]


async def test_run_span_has_an_error_status_when_a_guard_raised(
    mode: Mode, spans: InMemorySpanExporter
) -> None:
    """A failed run is seen as one, by the kind of its error alone."""
    broken = Agent(model_of("pong", mode=mode), output_processors=[StreamTrap(ValueError("secret words"))])
    with pytest.raises(ValueError, match="secret words"):
        await answer(broken, mode, "hi")
    status = {span.name: span.status for span in spans.get_finished_spans()}
    assert status["recollect.run"].status_code is otel.StatusCode.ERROR
    assert status["recollect.run"].description == "ValueError"
    assert status["recollect.stream"].status_code is otel.StatusCode.ERROR


class DownExporter(SpanProcessor):
    """Fails whenever a span ends, while it is switched on."""

    def __init__(self) -> None:
        """Begin switched off."""
        self.is_on = False

    def on_end(self, span: ReadableSpan) -> None:
        """Fail."""
        del span
        if self.is_on:
            raise RuntimeError("exporter down")


async def test_answer_is_not_lost_when_spans_cannot_be_reported(
    mode: Mode, spans: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    """What was answered and committed reaches the caller, whatever becomes of the spans."""
    del spans
    exporter = DownExporter()
    provider = otel.get_tracer_provider()
    assert isinstance(provider, TracerProvider)
    provider.add_span_processor(exporter)
    exporter.is_on = True
    try:
        async with Memory() as memory:
            result = await answer(Agent(model_of("pong", mode=mode), memory=memory), mode, "hi", **ADA)
    finally:
        exporter.is_on = False
    assert (result.text, result.saved) == ("pong", True)
    assert "exporter down" in caplog.text


async def test_span_of_a_run_ends_after_it_began_when_the_clock_is_set_back(
    mode: Mode, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long a run took is not the difference of two times of day."""
    times = count(start=2 * 10**18, step=-3600 * 10**9)
    monkeypatch.setattr("recollect.agent.run.time.time_ns", lambda: next(times))
    await _secret_run(mode, trace_content=False)
    run = next(span for span in spans.get_finished_spans() if span.name == "recollect.run")
    assert run.start_time is not None
    assert run.end_time is not None
    assert 0 <= run.end_time - run.start_time < 3600 * 10**9
