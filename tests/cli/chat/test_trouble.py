"""`recollect chat` where something is in its way: no input, a slow gateway, a broken store, Ctrl-C late."""

import asyncio
import json
import os
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal
from tests.cli.chat.terminal import Terminal
from tests.cli.chat.test_chat import MAIN, piped
from tests.support import programs
from tests.support.gateway_server import GatewayServer, answers, gateway_server, never
from tests.support.waiting import GENEROUS, wait_until

from recollect.scope import Scope
from recollect.storage.opening import open_store

FAILING = """
from recollect.cli.chat.terminal import TerminalChat
from recollect.runtime.loader import EngineLoader

class Failing:
    async def respond(self, messages):
        if "fail" in messages[-1].text:
            raise OSError("no route to the model")
        yield "all is well"

TerminalChat(EngineLoader(".").load(model=Failing()), None, (), is_new=False).run()
"""


@contextmanager
def gateway_beside() -> Generator[GatewayServer]:
    """A gateway in a thread of its own, which can be told how to answer."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(gateway_server()) as server:
        yield server


@pytest.fixture
def gateway() -> Iterator[GatewayServer]:
    """A gateway that answers at once, and remembers something."""
    memory = {"session_id": "chat:earlier", "text": "The boat is red and lies in Lisbon.", "score": 0.5}
    with gateway_beside() as server:
        server.on("search", answers({"results": [memory]}))
        yield server


def configure(folder: Path, port: int, timeout: float, **keys: object) -> None:
    """Write a configuration for a gateway."""
    gateway = {
        "baseUrl": f"http://127.0.0.1:{port}",
        "userId": "ada",
        "userKey": "uk_1",
        "timeoutSeconds": timeout,
    }
    (folder / ".recollect").mkdir()
    config = {"memory": {"mode": "memory_gateway", "gateway": gateway}} | keys
    (folder / ".recollect" / "config.json").write_text(json.dumps(config), "utf-8")


def events_in(folder: Path) -> list[str]:
    """Return the names of all events of the user."""

    async def read() -> list[str]:
        async with open_store(f"sqlite:///{folder}/.recollect/recollect.db") as store:
            return [event.name for event in await store.list_events(scope=Scope(None, "local"))]

    return asyncio.run(read())


def test_a_closed_input_is_the_end_and_no_crash(tmp_path: Path) -> None:
    """As `recollect chat <&-` has it."""
    piped(tmp_path, "", "init")
    command = "exec " + " ".join(f"'{part}'" for part in [*MAIN, "chat"]) + " <&-"
    done = subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_exit_code_is_that_of_the_first_prompt_that_failed(tmp_path: Path) -> None:
    """The lines after it are answered all the same."""
    piped(tmp_path, "", "init")
    done = piped(tmp_path, "a\0b\nhi\n", "chat", "--json", "--model", "nobody:nothing")
    codes = [json.loads(line)["error"]["code"] for line in done.stdout.splitlines()]
    assert codes == ["invalid_argument", "model_unavailable"]
    assert done.returncode == 2


def test_an_unknown_skill_is_said_before_anything_is_asked(tmp_path: Path) -> None:
    """Not once for each line."""
    piped(tmp_path, "", "init")
    done = piped(tmp_path, "a\nb\n", "chat", "--skill", "flying")
    assert done.returncode == 2
    assert done.stderr.count("'flying' is not a skill here") == 1


def test_a_turn_is_persisted_while_a_pipe_is_silent(tmp_path: Path, gateway: GatewayServer) -> None:
    """With `persist: after` the gateway is told at once, and not when the next line comes, too late."""
    configure(tmp_path, gateway.port, 30, persist="after")
    command = [*MAIN, "chat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"Where is the boat?\n")
        process.stdin.flush()
        assert process.stdout.readline()
        wait_until(lambda: len(events_in(tmp_path)) == 3)
        assert events_in(tmp_path)[1:] == ["memory_gateway_add_succeeded", "memory_gateway_flush_succeeded"]
        process.stdin.close()
        assert process.wait(GENEROUS) == 0


def test_a_turn_is_persisted_while_a_person_thinks(tmp_path: Path, gateway: GatewayServer) -> None:
    """The same at a terminal; `/why` shows how well each thing fitted that was recalled, and the events."""
    configure(tmp_path, gateway.port, 30, persist="after")
    with Terminal(["chat"], tmp_path) as terminal:
        terminal.wait_for("you> ")
        terminal.type("Where is the boat?\n")
        terminal.wait_for("Lisbon")
        terminal.wait_for("you> ")
        wait_until(lambda: "memory_gateway_flush_succeeded" in events_in(tmp_path))
        terminal.type("/why\n")
        shown = terminal.wait_for("memory_gateway_flush_succeeded")
        assert "1. (chat:earlier) The boat is red and lies in Lisbon." in shown
        assert '"score": 0.5' in shown
        terminal.type("/quit\n")
        assert terminal.ended() == 0


def test_ctrl_c_tells_that_a_turn_was_saved_already(tmp_path: Path) -> None:
    """The session keeps it first; what is broken off is only that the gateway is told."""
    with gateway_beside() as gateway:
        gateway.on("add", never())
        configure(tmp_path, gateway.port, 600)
        with Terminal(["chat"], tmp_path) as terminal:
            terminal.wait_for("you> ")
            terminal.type("hello\n")
            terminal.wait_for("I am the offline model")
            wait_until(lambda: "add" in gateway.operations)
            terminal.interrupt()
            terminal.wait_for("(stopped; what you saw of this turn is kept)")
            terminal.type("/sessions\n")
            terminal.wait_for("messages  hello")
            terminal.type("/quit\n")
            assert terminal.ended() == 0


def test_ctrl_c_leaves_a_gateway_that_does_not_answer(tmp_path: Path) -> None:
    """An answer can be broken off; leaving waits for what is under way, says so, and can be told not to."""
    with gateway_beside() as gateway:
        gateway.on("search", never())
        gateway.on("add", never())
        configure(tmp_path, gateway.port, 600, persist="after")
        with Terminal(["chat"], tmp_path) as terminal:
            terminal.wait_for("you> ")
            terminal.type("hello\n")
            wait_until(lambda: "search" in gateway.operations)
            terminal.interrupt()
            terminal.wait_for("(stopped; this turn is not kept)")
            terminal.wait_for("you> ")
            gateway.on("search", answers({"results": []}))
            terminal.type("hello again\n")
            terminal.wait_for("I am the offline model")
            terminal.wait_for("you> ")
            terminal.type("/quit\n")
            terminal.wait_for("Ctrl-C leaves without)")
            terminal.interrupt()
            assert terminal.ended() == 0, "it waited for the gateway"


def test_a_store_that_cannot_be_opened_does_not_end_the_chat(tmp_path: Path) -> None:
    """It is said at the beginning and after each answer, and the log does not write into the answers."""
    piped(tmp_path, "", "init")
    (tmp_path / ".recollect" / "recollect.db").mkdir()
    with Terminal(["chat"], tmp_path) as terminal:
        terminal.wait_for("What was said before cannot be read")
        terminal.wait_for("you> ")
        terminal.type("hello\n")
        shown = terminal.wait_for("This turn could not be saved")
        assert "could not save the turn" not in shown
        terminal.wait_for("you> ")
        terminal.type("/why\n")
        terminal.wait_for("error: StorageUnavailableError")
        terminal.type("/sessions\n")
        terminal.wait_for("Error: ")
        terminal.type("/quit\n")
        assert terminal.ended() == 0


def test_an_error_of_anybody_else_does_not_end_the_chat(tmp_path: Path) -> None:
    """Nor does a line that is no text, or a session that can be none."""
    piped(tmp_path, "", "init")
    with Terminal([], tmp_path, code=FAILING) as terminal:
        terminal.wait_for("model Failing")
        terminal.wait_for("you> ")
        terminal.type("fail now\n")
        terminal.wait_for("Error: OSError: no route to the model")
        terminal.wait_for("you> ")
        terminal.type("\udcff\udcfe\n")
        terminal.wait_for("text")  # by the locale it is rejected by the chat or by the runtime
        terminal.wait_for("you> ")
        terminal.type(f"/use {'x' * 600}\n")
        terminal.wait_for("at most 512 are allowed")
        terminal.type("/use monday\n")
        terminal.wait_for("Session monday (a new one)")
        terminal.type("now go on\n")
        terminal.wait_for("all is well")
        terminal.type("/use\n")
        terminal.wait_for("Session monday (2 messages)")
        terminal.type("/quit\n")
        assert terminal.ended() == 0


def test_a_pipe_says_in_a_line_why_a_turn_was_not_saved(tmp_path: Path) -> None:
    """Once, and after the answer; in JSON it is in the trace."""
    piped(tmp_path, "", "init")
    (tmp_path / ".recollect" / "recollect.db").mkdir()
    done = piped(tmp_path, "hello\n", "chat")
    assert (done.returncode, done.stdout[:20]) == (0, "I am the offline mod")
    (line,) = done.stderr.splitlines()
    assert line.startswith("This turn could not be saved: StorageUnavailableError: ")
    as_json = piped(tmp_path, "hello\n", "chat", "--json")
    assert (as_json.stderr, json.loads(as_json.stdout)["saved"]) == ("", False)


def test_a_pipe_says_in_a_line_that_a_part_of_memory_could_not_be_read(tmp_path: Path) -> None:
    """The turn is saved, and the answer came without it."""
    piped(tmp_path, "", "init")
    memories = tmp_path / ".recollect" / "memories"
    memories.mkdir()
    (memories / "USER.md").write_bytes(b"caf\xe9")
    done = piped(tmp_path, "hello\n", "chat")
    (line,) = done.stderr.splitlines()
    assert line.startswith("Memory was not all there for this answer: StorageCorruptError: ")
    with Terminal(["chat"], tmp_path) as terminal:
        terminal.wait_for("you> ")
        terminal.type("/memory\n")
        terminal.wait_for("! ")
        terminal.wait_for("is not UTF-8 text")
        terminal.type("/quit\n")
        assert terminal.ended() == 0


def test_a_chat_tells_that_changes_wait_for_approval(tmp_path: Path) -> None:
    """The person would otherwise wonder why nothing is remembered."""
    (tmp_path / ".recollect").mkdir()
    memory = {"mode": "curated", "curated": {"approval": True}}
    (tmp_path / ".recollect" / "config.json").write_text(json.dumps({"memory": memory}), "utf-8")
    with Terminal(["chat"], tmp_path) as terminal:
        terminal.wait_for("you> ")
        terminal.type("Remember that my cat is called Tom.\n")
        terminal.wait_for("It waits for your approval")
        terminal.wait_for("you> ")
        terminal.type("/memory\n")
        terminal.wait_for("1 waiting for approval: recollect memory approve")
        terminal.type("/quit\n")
        assert terminal.ended() == 0


def test_init_keeps_what_will_be_said_from_others(tmp_path: Path) -> None:
    """The folder is its owner's alone; one that is there stays as it is."""
    piped(tmp_path, "", "init", "new/agent")
    assert (tmp_path / "new" / "agent" / ".recollect").stat().st_mode & 0o777 == 0o700
    (tmp_path / ".recollect").mkdir(mode=0o755)
    (tmp_path / ".recollect").chmod(0o755)
    piped(tmp_path, "", "init")
    assert (tmp_path / ".recollect").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("place", ["taken", "taken/below"])
def test_init_says_what_is_in_its_way(tmp_path: Path, place: str) -> None:
    """A file where the folder should be."""
    (tmp_path / "taken").touch()
    done = piped(tmp_path, "", "init", place)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")
    assert "cannot be written: Not a directory" in done.stderr


def test_init_leaves_nothing_when_the_disk_is_full(tmp_path: Path) -> None:
    """Half of a configuration would stand in the way of the next try; and what is written is its owner's."""
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); {programs.MAIN}"
    reading, writing = os.pipe()  # files cannot be written to by then, but pipes can
    with os.fdopen(writing, "wb") as line:
        done = programs.run(["init"], tmp_path, code=limited, stderr=line.fileno())
    with os.fdopen(reading, "rb") as line:
        said = line.read().decode()
    assert done.returncode == 3
    assert "config.json: File too large; make room and try again" in said
    assert list((tmp_path / ".recollect").iterdir()) == []
    assert piped(tmp_path, "", "init").returncode == 0
    assert (tmp_path / ".recollect" / "config.json").stat().st_mode & 0o777 == 0o600


def test_init_names_the_next_command_so_that_it_can_be_copied(tmp_path: Path) -> None:
    """Also where the folder has a space in its name."""
    done = piped(tmp_path, "", "init", "my agent")
    assert "recollect chat --config 'my agent'" in done.stderr
