"""Texts that are full of secrets and of what almost is one, and ways to cut them into chunks."""

from collections.abc import Sequence

from hypothesis import strategies as st
from tests.support.contexts import context, new_run

from recollect import Message, RunContext, SpanGuard, TextDelta

fragments = st.sampled_from(
    (
        *("123-45-6789", "12", "3-", "-", "45", "6789", "a@b.co", "@", ".", "a", " ", "\n"),
        *("sk-1234", "sk-", "s", "BEGIN1", "END", "BE", "x", "you ", "\u00e9", "\U0001f600"),
    )
)

hostile_texts = st.lists(fragments, max_size=14).map("".join)
"""Texts made of secrets, halves of them, and other things."""

spoken_texts = hostile_texts.map(lambda text: text or ".")
"""The same, but never empty."""


@st.composite
def cut(draw: st.DrawFn, text: str) -> list[str]:
    """Cut a text into chunks anywhere; none of them is empty."""
    if len(text) < 2:
        return [text] if text else []
    places = sorted(draw(st.sets(st.integers(1, len(text) - 1))))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


@st.composite
def chunked_texts(draw: st.DrawFn, middle: str = "") -> tuple[str, list[str]]:
    """Return a text, maybe with something in its middle, and a way to cut it."""
    text = draw(hostile_texts) + middle + (draw(hostile_texts) if middle else "")
    return text, draw(cut(text))


@st.composite
def around(draw: st.DrawFn, secrets: st.SearchStrategy[str]) -> list[str]:
    """Return a secret between marks that are part of no secret, cut into chunks."""
    return draw(cut(f"! {draw(secrets)} !"))


async def streamed(guard: SpanGuard, chunks: list[str]) -> str:
    """Return what a guard releases of a stream."""
    ctx = context(new_run(), "stream")
    out: list[str] = []
    for chunk in chunks:
        out += _texts_of(await guard.process_output_stream(TextDelta(chunk), ctx))
    return "".join(out + _texts_of(await guard.finish_output_stream(ctx)))


async def cleaned(guard: SpanGuard, text: str, ctx: RunContext | None = None) -> str:
    """Return what a guard makes of a whole text."""
    after = await guard.process_input([Message("user", text)], ctx or context(new_run()))
    return after[0].text


def _texts_of(parts: Sequence[object]) -> list[str]:
    return [part.text for part in parts if isinstance(part, TextDelta)]
