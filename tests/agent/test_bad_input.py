"""Bad input gets a clear error before the model is asked or a store is opened."""

from typing import Any

import pytest
from tests.support.agents import Mode, answer, both_modes, model_of, texts
from tests.support.guards import KeywordBlocker

from recollect import (
    Agent,
    FilePart,
    InvalidArgumentError,
    Memory,
    Message,
    ModelUnavailableError,
    TextPart,
    ToolCall,
    ToolResult,
)
from recollect.errors import InvalidRoleError
from recollect.testing import ScriptedModel

pytestmark = pytest.mark.anyio

PROMPTS: dict[str, tuple[Any, str]] = {
    "empty": ("", "prompt: must not be empty"),
    "no messages": ([], "prompt: must not be empty"),
    "messages without content": ([Message("user", "")], "prompt: must not be empty"),
    "a number": (5, "prompt: must be text"),
    "nothing": (None, "prompt: must be text"),
    "bytes": (b"hi", "prompt: holds a int"),
    "a list of texts": (["hi"], "prompt: holds a str"),
    "an unknown role": ([{"role": "robot", "content": "hi"}], "role: must be one of user, assistant"),
    "no role": ([{"content": "hi"}], "role"),
    "an unknown field": ([{"role": "user", "content": "hi", "name": "x"}], "'name' is not a field"),
    "content of a wrong type": ([{"role": "user", "content": 5}], "content: must be text or parts"),
    "NUL": ("a\0b", "NUL"),
    "a lone surrogate": ("a\ud800", "lone surrogate"),
    "blanks": (" \n\t", "prompt: must not be empty"),
    "an empty part": (Message("user", [TextPart("")]), "prompt: must not be empty"),
    "an empty last message": ([Message("user", "a"), Message("user", "")], "its last message says nothing"),
    "system messages alone": (Message("system", "be kind"), "prompt: must not be empty"),
    "the assistant's message": ([Message("user", "a"), Message("assistant", "b")], "ends with an assistant"),
    "a tool's words": ([{"role": "tool", "content": "x"}], "whose call is not in the prompt"),
    "a result without its call": (Message("tool", [ToolResult("c", "f", 1)]), "call is not in the prompt"),
    "a result of a call that is answered": (
        [
            Message("assistant", [ToolCall("c", "f")]),
            *(Message("tool", [ToolResult("c", "f", n)]) for n in (1, 2)),
        ],
        "call is not in the prompt",
    ),
    "a field that is no text": ([{1: 2, "role": "user", "x": 3}], "is not a field"),
    "an id of the answer's": (Message("user", "a", id="r1:0000"), "choose another"),
    "an id twice": ([Message("user", "a", id="x"), Message("user", "b", id="x")], "id"),
}


@both_modes
@pytest.mark.parametrize(("prompt", "problem"), PROMPTS.values(), ids=PROMPTS.keys())
async def test_prompt_is_refused_when_it_cannot_be_used(mode: Mode, prompt: object, problem: str) -> None:
    """The error is ours, says what is wrong, and nothing was asked."""
    model = model_of("never said")
    async with Memory() as memory:
        with pytest.raises(InvalidArgumentError, match=problem):
            await answer(Agent(model, memory=memory), mode, prompt, run_id="r1")
    assert model.shown == []


async def test_unknown_role_has_an_error_of_its_own() -> None:
    """`InvalidRoleError` is also an `InvalidArgumentError`."""
    with pytest.raises(InvalidRoleError):
        await Agent(model_of("never said")).generate([{"role": "robot", "content": "hi"}])


IDS: dict[str, dict[str, Any]] = {
    "resource_id": {"resource_id": 5},
    "thread_id": {"thread_id": ["t"]},
    "tenant_id": {"tenant_id": 1.0},
    "run_id": {"run_id": 7},
    "app_id": {"app_id": None},
    "project_id": {"project_id": ""},
    "user_id": {"user_id": "ada", "resource_id": "ada"},
    "session": {"session": "s"},
}


@both_modes
@pytest.mark.parametrize(("argument", "ids"), IDS.items())
async def test_ids_are_refused_when_of_a_wrong_type(mode: Mode, argument: str, ids: dict[str, Any]) -> None:
    """The error names the id."""
    model = model_of("never said")
    with pytest.raises(InvalidArgumentError) as caught:
        await answer(Agent(model), mode, "hi", **ids)
    assert caught.value.argument == argument
    assert model.shown == []


@pytest.mark.parametrize(
    ("ids", "argument"),
    [
        ({"tenant_id": True}, "tenant_id"),
        ({"tenant_id": 0}, "tenant_id"),
        ({"resource_id": "x" * 600}, "resource_id"),
        ({"user_id": "x" * 600}, "user_id"),
    ],
)
async def test_ids_are_refused_when_no_scope_could_have_them(ids: dict[str, Any], argument: str) -> None:
    """Tenants are positive numbers, ids have a length."""
    for call in (Agent(model_of("never said")).generate("hi", **ids), Memory().get_messages(**ids)):
        with pytest.raises(InvalidArgumentError) as caught:
            await call
        assert caught.value.argument == argument


@both_modes
@pytest.mark.parametrize(
    ("model", "variable"),
    [("openai:gpt-5-mini", "OPENAI_API_KEY"), ("openai-chat:gpt-5-mini", "OPENAI_API_KEY")],
)
async def test_missing_key_is_named_when_a_provider_needs_one(
    monkeypatch: pytest.MonkeyPatch, mode: Mode, model: str, variable: str
) -> None:
    """The error names the variable, and the model that needs none."""
    monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ModelUnavailableError, match=f"{variable}.*model='offline'"):
        await answer(Agent(model), mode, "hi")


@pytest.mark.parametrize("model", ["nobody:nothing", "gpt", ""])
async def test_unknown_model_is_an_error_that_names_the_offline_one(model: str) -> None:
    """A model that nobody knows cannot be used."""
    with pytest.raises(ModelUnavailableError, match="model='offline'"):
        await Agent(model).generate("hi")


@pytest.mark.parametrize("model", [42, None, object(), ScriptedModel])
def test_wrong_kind_of_model_is_refused_at_once(model: object) -> None:
    """A model is a name or an object that answers."""
    with pytest.raises(InvalidArgumentError, match="must be a name, a Pydantic AI model"):
        Agent(model)


def test_object_that_only_looks_like_a_model_is_refused_before_it_is_asked() -> None:
    """What is no model after all is found out when the model layer is there."""

    class Likeness:
        def request(self) -> None:
            """Answer nothing."""

    with pytest.raises(InvalidArgumentError, match="must be a name, a Pydantic AI model"):
        Agent(Likeness()).sync.generate("hi")


MEMORIES: dict[str, tuple[Any, str]] = {
    "a URL": ("sqlite:///x.db", r"memory=Memory\(url\)"),
    "a list": ([Memory()], "is a list; use a Memory"),
    "the class": (Memory, r"memory=Memory\(\)"),
    "a processor": (KeywordBlocker(), "put processors into the lists"),
    "something else": (5, "is a int; use a Memory"),
}


@pytest.mark.parametrize(("memory", "advice"), MEMORIES.values(), ids=MEMORIES.keys())
def test_what_is_no_memory_is_refused_with_advice(memory: Any, advice: str) -> None:  # noqa: ANN401 - wrong uses
    """The error comes with the agent, and says what to write."""
    with pytest.raises(InvalidArgumentError, match=advice) as caught:
        Agent("offline", memory=memory)
    assert caught.value.argument == "memory"


@both_modes
async def test_result_of_a_tool_can_be_the_prompt_when_its_call_is_there(mode: Mode) -> None:
    """A client that runs tools itself sends the call and its result."""
    model = model_of("ok", mode=mode)
    call = Message("assistant", [ToolCall("c", "f", {})])
    await answer(Agent(model), mode, [Message("user", "q"), call, Message("tool", [ToolResult("c", "f", 1)])])
    assert [message.role for message in model.shown[0]] == ["user", "assistant", "tool"]


@both_modes
async def test_file_alone_is_a_prompt(mode: Mode) -> None:
    """A picture needs no words."""
    model = model_of("ok", mode=mode)
    result = await answer(Agent(model), mode, Message("user", [FilePart("image/png", data="aGk=")]))
    assert result.text == "ok"


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"max_steps": 0}, "max_steps"),
        ({"instructions": 5}, "instructions"),
        ({"max_steps": "3"}, "max_steps"),
    ],
)
def test_agent_is_refused_when_an_option_is_wrong(options: dict[str, Any], argument: str) -> None:
    """What is wrong with an agent is said when it is made."""
    with pytest.raises(InvalidArgumentError) as caught:
        Agent("offline", **options)
    assert caught.value.argument == argument


@both_modes
async def test_prompt_may_be_dicts_or_a_message(mode: Mode) -> None:
    """Messages may come as dicts with role and content, and keep the ids they have."""
    model = model_of("ok", mode=mode)
    await answer(
        Agent(model),
        mode,
        [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi", "id": "m1"}],
    )
    await answer(Agent(model), mode, Message("user", "hello", id="m2"))
    assert texts(model.shown[0]) == [("system", "be kind"), ("user", "hi")]
    assert [model.shown[0][1].id, model.shown[1][0].id] == ["m1", "m2"]


@both_modes
async def test_empty_answer_is_an_answer(mode: Mode) -> None:
    """A model that says nothing has answered: the prompt is kept, and there is no error."""
    async with Memory() as memory:
        result = await answer(Agent(model_of("", mode=mode), memory=memory), mode, "hi")
        stored = await memory.get_messages()
    assert (result.text, result.saved) == ("", True)
    assert texts(stored) == [("user", "hi")]
