"""A small server on loopback that speaks OpenAI's wire format: chats, streaming included, and embeddings."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


@dataclass
class Say:
    """A scripted answer: text in chunks, tool calls as (id, name, arguments in chunks), and how it ends."""

    texts: Sequence[str] = ()
    calls: Sequence[tuple[str, str, Sequence[str]]] = ()
    breaks: bool = False
    """Whether the connection is cut in the middle."""
    halts: bool = False
    """Whether the server waits after the texts until the client has gone."""
    status: int = 200


@dataclass
class ChatServer:
    """What the server was sent, and how its connections ended."""

    script: list[Say]
    url: str = ""
    requests: list[Json] = field(default_factory=list[Json])
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it ends."""
        try:
            while (body := await _read_request(reader)) is not None:
                if "input" in body:
                    await _send_json(writer, 200, _embeddings(body["input"]))
                    continue
                self.requests.append(body)
                say = self.script[min(len(self.requests), len(self.script)) - 1]
                if not body.get("stream"):
                    await _send_json(writer, 200, _completion(say))
                elif not await self._reply(say, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            self.left.set()
        finally:
            writer.close()

    async def _reply(self, say: Say, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if say.status != 200:
            await _send_error(writer, say.status)
            return True
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for delta in _deltas(say):
            await _send_event(writer, _chunk(delta))
        if say.breaks:
            return False
        if say.halts:
            await reader.read()  # returns when the client has hung up
            self.left.set()
            return False
        await _send_event(writer, _chunk({}, "tool_calls" if say.calls else "stop"))
        await _send_event(writer, _usage())
        _write_piece(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


@asynccontextmanager
async def chat_server(*script: Say) -> AsyncGenerator[ChatServer]:
    """Run a server that gives the scripted answers, the last one again and again."""
    state = ChatServer(list(script))
    server = await asyncio.start_server(state.answer, "127.0.0.1", 0)
    state.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with server:
        yield state


async def _read_request(reader: asyncio.StreamReader) -> Json | None:
    head = b""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    lines = head.decode().split("\r\n")
    assert lines[0] in ("POST /v1/chat/completions HTTP/1.1", "POST /v1/embeddings HTTP/1.1")
    size = next(int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:"))
    return json.loads(await reader.readexactly(size))


def _deltas(say: Say) -> list[Json]:
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": text} for text in say.texts]
    for index, (call_id, name, chunks) in enumerate(say.calls):
        function = {"name": name, "arguments": ""}
        deltas.append(
            {"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]}
        )
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": chunk}}]} for chunk in chunks]
    return deltas


def _chunk(delta: Json, finish: str | None = None) -> Json:
    choice: Json = {"index": 0, "delta": delta, "finish_reason": finish}
    return _envelope() | {"choices": [choice]}


def _usage() -> Json:
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    return _envelope() | {"choices": [], "usage": usage}


def _envelope() -> Json:
    return {"id": "chat-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "tiny"}


async def _send_event(writer: asyncio.StreamWriter, value: Json) -> None:
    _write_piece(writer, b"data: " + json.dumps(value).encode() + b"\n\n")
    await writer.drain()


def _write_piece(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def _completion(say: Say) -> Json:
    calls = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": "".join(chunks)}}
        for call_id, name, chunks in say.calls
    ]
    message: Json = {"role": "assistant", "content": "".join(say.texts) or None, "tool_calls": calls or None}
    choice: Json = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return _usage() | {"object": "chat.completion", "choices": [choice]}


def _embeddings(texts: list[str]) -> Json:
    data = [
        {"object": "embedding", "index": place, "embedding": [1.0, len(text) % 7, 2.0]}
        for place, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": 3, "total_tokens": 3}
    return {"object": "list", "data": data, "model": "tiny", "usage": usage}


async def _send_error(writer: asyncio.StreamWriter, status: int) -> None:
    await _send_json(writer, status, {"error": {"message": "the key is wrong", "type": "x", "code": None}})


async def _send_json(writer: asyncio.StreamWriter, status: int, value: Json) -> None:
    body = json.dumps(value).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
