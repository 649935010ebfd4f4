"""Questions of processors, over the wire and to a scripted model: which answers are read, what they cost."""

from typing import Any

import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from tests.agent.openai_server import ChatServer, Say, chat_server

from recollect import Agent, Memory, Message, Processor, RunContext
from recollect.errors import ModelAnswerError, ModelNotAskableError
from recollect.testing import ScriptedModel

pytestmark = pytest.mark.anyio

HELLO = Say(texts=["Hello."])


class Address(BaseModel):
    """Where somebody lives."""

    city: str


class Profile(BaseModel):
    """Somebody."""

    name: str
    address: Address | None = None


class Asker(Processor):
    """Asks the run's model for a value of a type, and keeps it."""

    id = "asker"

    def __init__(self, kind: type[Any]) -> None:
        """Take the type."""
        self._kind = kind
        self.answers: list[object] = []

    async def process_input(self, messages: list[Message], ctx: RunContext) -> list[Message]:
        """Ask."""
        self.answers.append(await ctx.ask("what is it?", self._kind))
        return messages


def model_on(server: ChatServer) -> tuple[OpenAIChatModel, AsyncOpenAI]:
    """Return a model whose answers the server gives, and its client."""
    client = AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0)
    return OpenAIChatModel("tiny", provider=OpenAIProvider(openai_client=client)), client


@pytest.mark.parametrize(
    ("kind", "said", "value"),
    [
        (bool, "true", True),
        (dict[str, float], '```json\n{"hate": 0.5}\n```', {"hate": 0.5}),
        (Address, '{"city": "Rome"}', Address(city="Rome")),
        (str, "Bonjour.", "Bonjour."),
    ],
)
async def test_plain_json_is_read_when_the_model_calls_no_tool(
    kind: type[Any], said: str, value: object
) -> None:
    """The same over the wire and from a script, and its request and tokens are the run's."""
    over_the_wire, scripted = Asker(kind), Asker(kind)
    async with chat_server(Say(texts=[said]), HELLO) as server:
        model, client = model_on(server)
        async with client:
            result = await Agent(model, input_processors=[over_the_wire]).generate("hi")
    assert (result.usage.requests, result.usage.input_tokens, result.usage.output_tokens) == (2, 22, 14)
    await Agent(ScriptedModel("ok", answers=[said]), input_processors=[scripted]).generate("hi")
    assert over_the_wire.answers == scripted.answers == [value]


async def test_answer_that_does_not_fit_is_an_error_that_quotes_nothing() -> None:
    """A guard fails closed, and the trace does not repeat what was said."""
    for said in ("rather not say", '{"town": "Rome"}'):
        agent = Agent(ScriptedModel("ok", answers=[said]), input_processors=[Asker(Address)])
        with pytest.raises(ModelAnswerError) as caught:
            await agent.generate("hi")
        assert said not in str(caught.value)


async def test_scripted_model_answers_in_order_and_repeats_the_last_one() -> None:
    """Values, functions of the question, and errors; without answers it cannot be asked."""
    asker = Asker(int)
    model = ScriptedModel("ok", answers=[1, len, "3"])
    for _ in range(4):
        await Agent(model, input_processors=[asker]).generate("hi")
    assert asker.answers == [1, len("what is it?"), 3, 3]
    assert model.asked == ["what is it?"] * 4
    with pytest.raises(OSError, match="gone"):
        await Agent(ScriptedModel("ok", answers=[OSError("gone")]), input_processors=[asker]).generate("hi")
    with pytest.raises(ModelNotAskableError, match="answers="):
        await Agent(ScriptedModel("ok"), input_processors=[asker]).generate("hi")


RECURSIVE = {
    "type": "object",
    "properties": {"child": {"$ref": "#/$defs/node"}},
    "$defs": {"node": {"type": "object", "properties": {"child": {"$ref": "#/$defs/node"}}}},
}


@pytest.mark.parametrize("schema", [Profile, RECURSIVE])
async def test_working_memory_sends_the_schema_of_its_fields(schema: object) -> None:
    """The tool on the wire has the fields; a schema that refers to itself stays in the prompt alone."""
    fields = '{"name": "Ada", "address": {"city": "Rome"}}' if schema is Profile else '{"child": {}}'
    note = Say(calls=[("c", "final_result", [fields if schema is Profile else f'{{"response": {fields}}}'])])
    async with chat_server(HELLO, note) as server, Memory(working_memory={"schema": schema}) as memory:
        model, client = model_on(server)
        async with client:
            result = await Agent(model, memory=memory).generate("I am Ada, from Rome.")
        known = await memory.get_working_memory()
    assert result.usage.requests == 2
    parameters = server.requests[1]["tools"][0]["function"]["parameters"]
    if schema is Profile:
        assert {*parameters["properties"]} == {"name", "address"}
        assert known == {"name": "Ada", "address": {"city": "Rome"}}
    else:
        assert "child" in str(server.requests[1]["messages"])
