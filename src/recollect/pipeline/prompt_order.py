"""Where the present turn begins in a prompt: what stands before it is history, wherever it came from."""

from collections.abc import Sequence

from recollect.messages import Message


def start_of_turn(messages: Sequence[Message]) -> int:
    """Return the place of the first message of the present turn.

    A caller may send a whole history as the prompt. The turn is what the user said last, be it in several
    messages, and what follows it. A prompt in which no user speaks is the turn as a whole.
    """
    places = [place for place, message in enumerate(messages) if message.origin == "input"]
    spoken = [place for place in places if messages[place].role == "user"]
    if not spoken:
        return places[0] if places else len(messages)
    start = spoken[-1]
    while start - 1 in spoken:
        start -= 1
    return start
