"""The trace of a run as OpenTelemetry spans, for whoever has configured a tracer."""

from recollect.agent.result import Result
from recollect.trace import TraceEntry


def emit_spans(result: Result, started_at_ns: int, ended_at_ns: int, *, with_content: bool) -> None:
    """Report a run and its processors; without a configured tracer nothing happens.

    Message text is in no span unless it is asked for.
    """
    try:
        from opentelemetry import trace
    except ImportError:
        return
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return
    tracer = trace.get_tracer("recollect")
    run = tracer.start_span("recollect.run", start_time=started_at_ns, attributes=_facts(result))
    if with_content:
        run.set_attribute("recollect.prompt", "\n".join(message.text for message in result.prompt))
        run.set_attribute("recollect.answer", result.text)
    context = trace.set_span_in_context(run)
    for entry in result.trace:
        span = tracer.start_span(
            f"recollect.{entry.phase}",
            context,
            start_time=entry.started_at_ns,
            attributes=_entry_facts(entry),
        )
        span.end(entry.started_at_ns + int(entry.milliseconds * 1_000_000))
    run.end(ended_at_ns)


def _facts(result: Result) -> dict[str, str | int | bool]:
    tripwire = result.tripwire.processor_id if result.tripwire else None
    return {
        "recollect.run_id": result.run_id,
        "recollect.saved": result.saved,
        "recollect.tripwire": tripwire or "",
        "recollect.requests": result.usage.requests,
    }


def _entry_facts(entry: TraceEntry) -> dict[str, str | int | list[str]]:
    return {
        "recollect.processor_id": entry.processor_id,
        "recollect.calls": entry.calls,
        "recollect.messages_in": entry.messages_in,
        "recollect.messages_out": entry.messages_out,
        "recollect.changes": entry.changes,
        "recollect.tripped": int(entry.tripwire is not None),
        "recollect.failed": int(entry.error is not None),
    }
