"""Searching a user's other sessions, on every engine."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from pydantic_ai.tools import Tool
from tests.runtime.sessions.recorded import HERE, START, USER, call, say, scope_of, search_in, use_tool

from recollect import Agent, Memory, Message, Store, ToolCall
from recollect.errors import InvalidArgumentError, MemoryNotFoundError, RecollectError
from recollect.runtime.sessions.rendering import MAX_CHARACTERS
from recollect.runtime.sessions.tool import NO_MESSAGES, NO_SESSIONS, NOTHING_FOUND, WHICH_SESSION, Sort
from recollect.testing import ScriptedModel

pytestmark = pytest.mark.anyio

HOSTILE = (
    '"',
    '"tea',
    "'",
    "((((",
    "tea)",
    "*",
    "tea*",
    "AND",
    "OR NOT NEAR",
    "NEAR(tea, 5)",
    "tea AND (OR",
    "col:tea",
    "^tea",
    "-tea",
    "{tea}",
    "%",
    "_",
    "\\",
    "tea\0pot",
    "\ud800",
    "\u202etea",
    "🍵",
    "'; DROP TABLE messages; --",
    "\n\r\u2028",
    "'" * 5_000,
    "(" * 100_000,
    "tea " * 250_000,
)


async def test_discovery_shows_the_match_where_and_when_it_was(store: Store) -> None:
    """A hit has its session, title, time, id and the words around it, and what was said beside it."""
    ids = await say(store, "trip", "Hello", "Hi", "We fly to Lisbon in May", "Nice", "Book it", "Done")
    await store.update_thread(title="Plans", scope=scope_of("trip"))
    await say(store, "other", "I like tea", "Me too")
    answer = await call(search_in(store), query="when do we fly to lisbon?")
    assert 'Session "trip" "Plans", last message 2026-03-01 09:05, 6 messages:' in answer
    assert f'> 2026-03-01 09:02 user (message "{ids[2]}"): We fly to Lisbon in May' in answer
    assert f'  2026-03-01 09:01 assistant (message "{ids[1]}"): Hi' in answer
    assert f'  2026-03-01 09:03 assistant (message "{ids[3]}"): Nice' in answer
    assert "tea" not in answer


async def test_present_session_is_left_out_however_much_of_it_fits(store: Store) -> None:
    """Four hundred matches in the present session do not hide the one in another."""
    await say(store, HERE, *["the blue bicycle"] * 400)
    await say(store, "old", "my bicycle is blue and has a bell, and much else besides")
    answer = await call(search_in(store), query="blue bicycle")
    assert '"old"' in answer
    assert f'"{HERE}"' not in answer
    assert await call(search_in(store), query="blue bicycle", session="old") != NOTHING_FOUND


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("我们下周去北京参观故宫博物院。", "故宫"),
        ("明日は友達と京都でラーメンを食べます", "ラーメン"),
        ("東京タワーの近くに住んでいます", "東京タワー"),
        ("내일 서울에서 친구를 만나요", "서울"),
        ("我家的猫很可爱", "猫"),
        ("毎朝お茶を飲みます", "茶"),
        ("한강에서 배를 탔어요", "배"),
        ("พรุ่งนี้จะไปเชียงใหม่กับเพื่อน", "เชียงใหม่"),
        ("سأسافر إلى القاهرة غدا", "القاهرة"),
        ("Über die Brücke gehen", "brücke"),
        ("我喜欢喝茶 with milk", "喝茶 MILK"),
    ],
)
async def test_words_are_found_in_every_script(store: Store, said: str, asked: str) -> None:
    """Languages without spaces are searched as others are."""
    await say(store, "s", "Something else", "Yes")
    await say(store, "t", said, "OK")
    (match,) = await search_in(store).search(asked)
    assert match.session.id == "t"
    assert match.hits[0].message.text == said


async def test_single_character_is_found_as_other_words_are(store: Store) -> None:
    """Never in tool text, in the present session or in somebody else's; shown with what is around it."""
    await say(store, HERE, "我的猫", "好")
    await say(store, "eve", "她的猫", "好", user="eve")
    await use_tool(store, "old", "猫的照片")
    await say(store, "old", "很久以前" * 200 + "我们养了一只猫。" + "后来" * 200, "狗也很好", day=1)
    await say(store, "new", "猫和狗", "好", day=2)
    search = search_in(store)
    assert [match.session.id for match in await search.search("猫", without_session=HERE)] == ["new", "old"]
    (match,) = await search.search("猫", session_id="old")
    assert "一只猫" in match.hits[0].snippet
    assert len(match.hits) == 1
    assert [one.session.id for one in await search.search("猫 狗", without_session=HERE)] == ["new", "old"]
    (oldest, _) = await search.search("猫", sort="oldest", without_session=HERE)
    assert oldest.session.id == "old"
    assert await search.search("猫", role="assistant") == []
    assert await search.search("鸟") == []


async def test_no_query_can_break_the_search(store: Store) -> None:
    """Whatever the query, the answer is text of bounded size: a hit, nothing found, or no words."""
    await say(store, "s", "Green tea in a pot", "Yes")
    search = search_in(store)
    for query in HOSTILE:
        answer = await call(search, query=query)
        assert len(answer) <= MAX_CHARACTERS
        assert ('"s"' in answer) == ("tea" in query), query[:20]


async def test_only_what_user_and_assistant_said_is_found(store: Store) -> None:
    """Words of tools, of instructions and of hidden events are never shown, not even beside a hit."""
    await say(store, "s", "Please look", "I did")
    await use_tool(store, "s", "xyzzy")
    await store.append_turn([Message("system", "xyzzy rule", id="rule")], scope=scope_of("s"))
    await store.add_event("xyzzy", {"text": "xyzzy"}, run_id="xyzzy", scope=scope_of("s"))
    await say(store, "s", "Thanks", "Welcome", day=1)
    search = search_in(store)
    assert await call(search, query="xyzzy") == NOTHING_FOUND
    for arguments in ({"query": "look"}, {"session_id": "s"}, {"query": "thanks"}, {}):
        assert "xyzzy" not in await call(search, **arguments)
    unknown = await call(search, session_id="s", around_message_id="rule")
    assert "has no message 'rule'" in unknown


async def test_hits_are_grouped_and_limited_by_session(store: Store) -> None:
    """Each session comes once, with three hits at most; the limit is on sessions and stays in its bounds."""
    for number in range(12):
        await say(store, f"s{number}", *(f"the red kite flies {5 * number + n}" for n in range(5)))
    search = search_in(store)
    for given, expected in ((3, 3), (1, 1), (0, 1), (-5, 1), (10, 10), (99, 10)):
        matches = await search.search("red kite", limit=given)
        assert len({match.session.id for match in matches}) == len(matches) == expected
        assert {len(match.hits) for match in matches} == {3}


async def test_found_sessions_are_ordered_by_time_when_asked_for(store: Store) -> None:
    """With a time order a message that has few of the words does not come first for its date alone."""
    await say(store, "middle", "The zebra crossing is striped", "ok", day=2)
    await say(store, "late", "A zebra crossing in town", "ok", day=3)
    await say(store, "early", "My zebra crossing photo", "ok", day=1)
    await say(store, "latest", "Crossing over the long, long bridge was fun", "ok", day=9)
    search = search_in(store)
    orders: dict[Sort, list[str]] = {
        "newest": ["late", "middle", "early"],
        "oldest": ["early", "middle", "late"],
    }
    for sort, expected in orders.items():
        matches = await search.search("zebra crossing", limit=3, sort=sort)
        assert [match.session.id for match in matches] == expected
    assert len(await search.search("zebra crossing", limit=9)) == 4


async def test_one_side_can_be_searched_alone(store: Store) -> None:
    """A role leaves out what the other side said."""
    await say(store, "s", "Tell me of the moon", "The moon is far")
    search = search_in(store)
    for role in ("user", "assistant"):
        (match,) = await search.search("moon", role=role)
        assert [hit.message.role for hit in match.hits] == [role]


async def test_one_side_is_found_when_the_other_said_it_hundreds_of_times(store: Store) -> None:
    """The role is chosen before the best messages are."""
    await say(store, "s", *["Tell me", "The moon"] * 250)
    await say(store, "t", "A longer tale of the moon and the sun", "ok", day=1)
    (match,) = await search_in(store).search("moon", role="user")
    assert match.session.id == "t"


async def test_search_can_be_bounded_by_time(store: Store) -> None:
    """From a day on, or until before a day; programs give times, the model dates."""
    for day in range(4):
        await say(store, f"s{day}", f"the blue bicycle {day}", "nice", day=day)
    search, day = search_in(store), timedelta(days=1)
    found = await search.search("bicycle", after=START + day, before=START + 3 * day, limit=10)
    assert {match.session.id for match in found} == {"s1", "s2"}
    answer = await call(search, query="bicycle", after="2026-03-02", before="2026-03-04", limit=10)
    assert [f'"s{n}"' in answer for n in range(4)] == [False, True, True, False]
    assert await call(search, query="bicycle", before="2026-03-01T09:00") == NOTHING_FOUND
    assert await call(search, query="bicycle", after="", before="") == await call(search, query="bicycle")
    wrong = await call(search, query="bicycle", after="last week")
    assert "after: must be a date or a time such as 2026-03-31" in wrong


async def test_one_session_can_be_searched_alone(store: Store) -> None:
    """A query with a session looks nowhere else, and may look into the present one."""
    for session in ("s", "t", HERE):
        await say(store, session, f"a walk in {session}", "nice")
    assert '"s-0-0"' in (answer := await call(search_in(store), query="walk", session_id="s"))
    assert "t-0-0" not in answer
    assert f'"{HERE}-0-0"' in await call(search_in(store), query="walk", session_id=HERE)


async def test_snippet_shows_the_words_of_a_long_message(store: Store) -> None:
    """Of a long text the part with the words is shown, in Chinese too."""
    filler = "Lorem ipsum dolor sit amet. " * 400
    await say(store, "s", f"{filler}The password hint is a purple giraffe. {filler}", "ok")
    await say(store, "t", "天气很好。" * 1000 + "钥匙在红色的盒子里。" + "天气很好。" * 1000, "ok")
    search = search_in(store)
    for query, words in (("purple giraffe", "a purple giraffe."), ("红色盒子", "钥匙在红色的盒子里")):
        ((match,)) = (await search.search(query))[:1]
        snippet = match.hits[0].snippet
        assert words in snippet
        assert snippet.startswith("… ")
        assert snippet.endswith(" …")
        assert len(snippet) < 310


async def test_removed_talk_is_not_found(store: Store) -> None:
    """What was deleted, or erased, is gone from the next search on."""
    ids = await say(store, "s", "the golden harp", "yes")
    await say(store, "t", "a golden harp", "yes")
    search = search_in(store)
    assert len(await search.search("golden harp")) == 2
    await store.delete_messages(ids[:1], scope=scope_of("s"))
    assert [match.session.id for match in await search.search("golden harp")] == ["t"]
    await store.erase(scope=scope_of(None))
    assert await search.search("golden harp") == []
    assert await call(search) == NO_SESSIONS


async def test_nothing_of_others_is_found_or_told_apart_from_nothing(store: Store) -> None:
    """Another user's session gives the very answer that a session gives which never was."""
    ids = await say(store, "secret", "the silver key", "yes", user="eve")
    await say(store, "own", "something", "yes")
    search = search_in(store)
    assert await call(search, query="silver key") == NOTHING_FOUND
    for arguments in ({}, {"around_message_id": ids[0]}, {"query": "key"}):
        of_eve = await call(search, session_id="secret", **arguments)
        of_nobody = await call(search, session_id="nobody", **arguments)
        assert of_eve.replace("secret", "nobody") == of_nobody
        assert "there is no session 'nobody'" in of_nobody
    assert "secret" not in await call(search)


async def test_answers_say_what_to_do_when_there_is_nothing(store: Store) -> None:
    """An empty query, a missing session, an unknown message and an empty session are told apart."""
    search = search_in(store)
    assert await call(search) == NO_SESSIONS
    assert await call(search, query="tea") == NOTHING_FOUND
    for query in ("", "  ", "?!", "🍵"):
        assert "has no words to look for" in await call(search, query=query)
    assert await call(search, around_message_id="m") == WHICH_SESSION
    await store.create_thread(scope=scope_of("empty"))
    assert await call(search, session_id="empty") == NO_MESSAGES
    assert "has no message 'm'" in await call(search, session_id="empty", around_message_id="m")
    assert "NUL" in await call(search, session_id="a\0b")


async def test_program_gets_errors_where_the_model_gets_words(store: Store) -> None:
    """The plain methods raise errors of our own that name the argument."""
    search: Any = search_in(store)
    await say(store, "s", "x", "y")
    with pytest.raises(MemoryNotFoundError):
        await search.read("unknown")
    for argument, work in {
        "query": lambda: search.search(5),
        "sort": lambda: search.search("x", sort="best"),
        "role": lambda: search.search("x", role="tool"),
        "after": lambda: search.search("x", after="2026-03-01"),
        "before": lambda: search.search("x", before=START.replace(tzinfo=None)),
        "limit": lambda: search.browse(limit="3"),
        "window": lambda: search.scroll("s", "s-0-0", window=None),
        "session_id": lambda: search.read(""),
        "message_id": lambda: search.scroll("s", ""),
    }.items():
        with pytest.raises(InvalidArgumentError) as raised:
            await work()
        assert raised.value.argument == argument


async def test_null_stands_for_what_is_usual(store: Store) -> None:
    """As models send it for arguments that they do not care about."""
    await say(store, "s", "green tea", "yes")
    search = search_in(store)
    nothing = dict.fromkeys(
        (*("session_id", "around_message_id", "window", "limit"), *("sort", "role", "after", "before"))
    )
    assert await call(search, query="tea", **nothing) == await call(search, query="tea")
    assert await call(search, query=None, **nothing) == await call(search)


async def test_tool_cannot_be_called_outside_of_a_run(store: Store) -> None:
    """Without a run nobody knows which session is the present one."""
    (tool,) = search_in(store).get_tools()
    with pytest.raises(RecollectError, match="in a run"):
        await tool(query="x")


async def test_searches_and_writes_at_once_do_not_disturb_each_other(store: Store) -> None:
    """Every search sees at least what was there before it began."""
    search = search_in(store)
    await say(store, "s", "an owl", "yes")

    async def write_and_look(number: int) -> int:
        await say(store, f"s{number}", f"an owl number {number}", "yes")
        return len(await search.search(f"owl number {number}", limit=10))

    found = await asyncio.gather(*(write_and_look(number) for number in range(20)))
    assert min(found) >= 1
    assert len(await search.search("owl", limit=10)) == 10


async def test_model_finds_an_earlier_session_in_a_real_run(store: Store) -> None:
    """The tool is described to the model argument by argument, and answers it within a run."""
    await say(store, "old", "The door code is 4711", "Noted")
    search = search_in(store)
    model = ScriptedModel([ToolCall("c1", "session_search", {"query": "door code"}), "It is 4711."])
    agent = Agent(model, tools=[*search.get_tools()], memory=Memory(store))
    result = await agent.generate("door code?", tenant_id=None, resource_id=USER, thread_id="new")
    assert result.text == "It is 4711."
    (answer,) = model.shown[-1][-1].tool_results
    assert "The door code is 4711" in str(answer.content)
    assert "door code?" not in str(answer.content)


async def test_every_argument_is_described_to_the_model(store: Store) -> None:
    """The schema says what each argument means, and that history proves nothing about now."""
    (tool,) = search_in(store).get_tools()
    described = Tool(tool, takes_ctx=False).tool_def
    assert described.name == "session_search"
    assert "secondary evidence" in (described.description or "")
    arguments = described.parameters_json_schema["properties"]
    assert set(arguments) == {
        "query",
        "session_id",
        "around_message_id",
        "window",
        "limit",
        "sort",
        "role",
        "after",
        "before",
    }
    assert all(argument["description"] for argument in arguments.values()), json.dumps(arguments)
