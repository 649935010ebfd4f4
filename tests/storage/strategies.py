"""What the steps of the model test draw: messages, turns, times and values."""

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st
from tests.storage.readings import KEYS

from recollect import Message, ReasoningPart, TextPart, ToolCall, ToolResult
from recollect.messages import ORIGINS, ROLES

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
IDS = tuple(f"m{number}" for number in range(20))
TEXTS = ("", "hello there", "Grüße aus 東京 😀", "100% of '; DROP TABLE messages; --")

CALL_IDS = st.sampled_from(("c1", "c2"))
CALL = st.builds(ToolCall, CALL_IDS, st.just("look"), st.just({"q": [1, None]}))
RESULT = st.builds(ToolResult, CALL_IDS, st.just("look"), st.sampled_from((None, "found", {"n": 1})))
PART = st.one_of(
    CALL,
    RESULT,
    st.builds(TextPart, st.sampled_from(TEXTS)),
    st.builds(ReasoningPart, st.just("hm"), st.sampled_from((None, "proof"))),
)
MESSAGE = st.builds(
    Message,
    st.sampled_from(ROLES),
    st.one_of(st.sampled_from(TEXTS), st.tuples(PART), st.tuples(PART, PART)),
    id=st.sampled_from(IDS),
    metadata=st.sampled_from((None, {"b": 1, "a": [2.5, "x"]})),
    created_at=st.integers(-2, 5).map(lambda hours: START + timedelta(hours=hours)),
    origin=st.sampled_from((None, *ORIGINS)),
)
TURN = st.lists(MESSAGE, min_size=1, max_size=4, unique_by=lambda message: message.id)
TOOL_PARTS = st.lists(
    st.one_of(
        st.tuples(CALL), st.tuples(RESULT), st.tuples(RESULT, RESULT), st.tuples(RESULT, CALL), st.just(())
    ),
    min_size=2,
    max_size=9,
)
LIFETIME = st.sampled_from((None, None, timedelta(microseconds=1), HOUR, 2 * HOUR))
PICKS = st.sets(st.integers(0, 9), min_size=1, max_size=6)
SOME_IDS = st.lists(st.sampled_from((*IDS, "not there")), max_size=5)
AROUND = st.tuples(st.integers(0, 2), st.integers(0, 2))
TITLE = st.none() | st.sampled_from(TEXTS)
METADATA = st.none() | st.sampled_from(({}, {"tags": ["x"]}))
VALUE = st.dictionaries(st.sampled_from(KEYS), st.none() | st.integers() | st.sampled_from(TEXTS), max_size=2)
