"""Long texts: how long a tool result with many keys takes, and how long others wait for a long prompt."""

import time
from typing import TypedDict

from tests.support.contexts import context, new_run
from tests.support.long_texts import TEXTS, make_result, make_text, measure_delay

from benchmarks.harness.report import Show
from recollect.guards.injection.detector import PromptInjectionDetector
from recollect.guards.pii.detector import PIIDetector

_KEYS = 16_000
_MEGABYTES = 8.0
_MILLI = 1e3


class LongTextFigures(TypedDict):
    """Seconds of the tool result; by text, how much later the slowest greeting came, and the prompt took."""

    tool_result_seconds: float
    delay_milliseconds: dict[str, float]
    prompt_seconds: dict[str, float]


async def measure_long_texts(show: Show) -> LongTextFigures:
    """Measure a tool result whose keys are e-mail addresses, and prompts of 8 MB."""
    show("checking a tool result of many keys", 0)
    seconds = await _measure_tool_result()
    delays: dict[str, float] = {}
    prompts: dict[str, float] = {}
    for place, (name, part) in enumerate(TEXTS.items(), 1):
        show(f"greeting beside 8 MB of {name}", place / (len(TEXTS) + 1))
        delay = await measure_delay(make_text(part, _MEGABYTES))
        delays[name] = round((delay.busy - delay.quiet) * _MILLI, 1)
        prompts[name] = round(delay.handled, 1)
    return {
        "tool_result_seconds": round(seconds, 2),
        "delay_milliseconds": delays,
        "prompt_seconds": prompts,
    }


async def _measure_tool_result() -> float:
    result = make_result(_KEYS)
    started = time.perf_counter()
    for guard in (PIIDetector(), PromptInjectionDetector(check="tool_results")):
        result = await guard.process_tool_result(result, context(new_run()))
    return time.perf_counter() - started
