"""The trace of a run as OpenTelemetry spans, if a tracer is configured."""

import logging
import time
from typing import TYPE_CHECKING

from recollect.agent.result import Result
from recollect.trace import TraceEntry

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

_log = logging.getLogger("recollect")


def emit_spans(
    result: Result, failure: Exception | None, started: tuple[int, int], *, with_content: bool
) -> None:
    """Emit a span for a finished run and one for each trace entry; without a tracer nothing happens.

    `started` is when the run began, by the clock, which may be set back, and by the monotonic clock. Only
    `with_content` puts message text into spans. A tracer's error is logged and does not fail the run.
    """
    try:
        from opentelemetry import trace
    except ImportError:
        return
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return
    try:
        _emit(trace.get_tracer("recollect"), result, failure, started, with_content=with_content)
    except Exception as error:  # noqa: BLE001 - exporters are other people's code
        _log.warning("the spans of run %s could not be reported: %s", result.run_id, error)


def _emit(
    tracer: "Tracer",
    result: Result,
    failure: Exception | None,
    started: tuple[int, int],
    *,
    with_content: bool,
) -> None:
    from opentelemetry import trace

    started_at_ns, begun_ns = started
    ended_at_ns = started_at_ns + time.monotonic_ns() - begun_ns
    run = tracer.start_span("recollect.run", start_time=started_at_ns, attributes=_run_attributes(result))
    if failure is not None:  # only its type: the message may quote the prompt
        run.set_status(trace.StatusCode.ERROR, type(failure).__name__)
    if with_content:
        run.set_attribute("recollect.prompt", "\n".join(message.text for message in result.prompt))
        run.set_attribute("recollect.answer", result.text)
    context = trace.set_span_in_context(run)
    for entry in result.trace:
        span = tracer.start_span(
            f"recollect.{entry.phase}",
            context,
            start_time=entry.started_at_ns,
            attributes=_entry_attributes(entry),
        )
        if entry.error is not None and entry.tripwire is None:
            span.set_status(trace.StatusCode.ERROR)
        span.end(entry.started_at_ns + int(entry.milliseconds * 1_000_000))
    run.end(ended_at_ns)


def _run_attributes(result: Result) -> dict[str, str | int | bool]:
    tripwire = result.tripwire.processor_id if result.tripwire else None
    return {
        "recollect.run_id": result.run_id,
        "recollect.saved": result.saved,
        "recollect.tripwire": tripwire or "",
        "recollect.requests": result.usage.requests,
    }


def _entry_attributes(entry: TraceEntry) -> dict[str, str | int | list[str]]:
    return {
        "recollect.processor_id": entry.processor_id,
        "recollect.calls": entry.calls,
        "recollect.messages_in": entry.messages_in,
        "recollect.messages_out": entry.messages_out,
        "recollect.changes": entry.changes,
        "recollect.tripped": int(entry.tripwire is not None),
        "recollect.failed": int(entry.error is not None),
    }
