"""`UnicodeNormalizer`: one Unicode form and no invisible characters, before anything reads a text."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, get_args

from recollect.concurrency.threads import run_by_size
from recollect.guards.json_texts import map_texts
from recollect.guards.stream_guard import StreamGuard
from recollect.message_size import count_message, count_part
from recollect.messages import Message, Part, TextPart, ToolResult
from recollect.text.normalizing import Form, NormalizingStream, Style, normalize
from recollect.validation import check_choice, check_flag

if TYPE_CHECKING:
    from recollect.pipeline.context import RunContext


class UnicodeNormalizer(StreamGuard):
    """Normalizes text to one Unicode form and removes invisible characters, which can carry hidden words.

    It cleans the messages of the caller, the texts of tool results, and the answer, also while it streams.
    Emoji, and the joiners that Persian and Indic scripts need, stay. Reasoning, tool calls and files are left
    as they are.
    """

    id = "unicode-normalizer"

    def __init__(
        self,
        *,
        form: Form | None = "NFKC",
        collapse_whitespace: bool = False,
        trim: bool = True,
        confusables: bool = False,
    ) -> None:
        """Set the Unicode form (None keeps it) and what else to normalize.

        `collapse_whitespace` reduces several spaces, line breaks or empty lines to one. `trim` strips both
        ends of a text. `confusables` rewrites words that mix Latin letters with look-alikes in Latin letters.
        """
        if form is not None:
            check_choice(form, "form", get_args(Form))
        options = {"collapse_whitespace": collapse_whitespace, "trim": trim, "confusables": confusables}
        for name, value in options.items():
            check_flag(value, name)
        self._style = Style(form, **options)
        # A tool's texts may be code or tables: their whitespace is theirs.
        self._tool_style = replace(self._style, collapse_whitespace=False, trim=False)

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:  # noqa: ARG002
        """Clean what the caller said."""
        return [
            await run_by_size(count_message(message), partial(self._clean, message))
            if message.origin == "input"
            else message
            for message in messages
        ]

    async def process_tool_result(self, result: ToolResult, ctx: RunContext) -> ToolResult:  # noqa: ARG002
        """Clean all texts in a result."""
        return await run_by_size(count_part(result), partial(self._clean_result, result))

    def new_stream(self, ctx: RunContext) -> NormalizingStream:  # noqa: ARG002
        """Make a stream in one form."""
        return NormalizingStream(self._style)

    def clean_message(self, message: Message, ctx: RunContext, *, has_streamed: bool) -> Message:  # noqa: ARG002
        """Clean the prompt as it is kept, and an answer that has not streamed."""
        return message if has_streamed else self._clean(message)

    def _clean_result(self, result: ToolResult) -> ToolResult:
        content = map_texts(result.content, lambda text: normalize(text, self._tool_style))
        return result if content == result.content else replace(result, content=content)

    def _clean(self, message: Message) -> Message:
        before = message.parts
        after = tuple(self._clean_part(part) for part in before)
        return message if after == before else message.replace(content=after)

    def _clean_part(self, part: Part) -> Part:
        return TextPart(normalize(part.text, self._style)) if isinstance(part, TextPart) else part
