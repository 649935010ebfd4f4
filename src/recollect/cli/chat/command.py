"""`recollect chat`: the agent loop in a terminal, or through a pipe."""

import sys
from typing import Annotated

import typer

from recollect.cli.options import DEFAULT_CONFIG, Config
from recollect.validation import check_id

Session = Annotated[str | None, typer.Option("--session", "-s", help="The session to continue or start.")]
New = Annotated[bool, typer.Option("--new", help="Start a new session instead of continuing the last one.")]
Model = Annotated[str | None, typer.Option("--model", "-m", help="Use this model, not the configured one.")]
SkillNames = Annotated[
    list[str] | None, typer.Option("--skill", help="A skill for every prompt; may be repeated.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object for each answer.")]


def chat(  # noqa: PLR0917 - one for each option
    config: Config = DEFAULT_CONFIG,
    session: Session = None,
    new: New = False,
    model: Model = None,
    skill: SkillNames = None,
    json: AsJson = False,
) -> None:
    """Chat with the agent that .recollect/config.json describes.

    At a terminal it continues the last session. From a pipe, each line is a prompt, in a new session unless
    --session names one.
    """
    # Lazy imports: a runtime loads much that the other commands do not need.
    from recollect.cli.chat.pipe import PipedChat
    from recollect.cli.chat.terminal import TerminalChat
    from recollect.runtime.loader import EngineLoader
    from recollect.runtime.skills import SkillFolder

    if session is not None:
        check_id(session, "session")  # an empty one, as of a variable that is not set, is not a new one
    runtime = EngineLoader(config).load(model=model)
    skills = tuple(skill or ())
    SkillFolder(runtime.config.skills).read(skills)  # an unknown one is said before anything is asked
    if json or not sys.stdin.isatty():
        raise typer.Exit(PipedChat(runtime, session, skills, as_json=json).run())
    TerminalChat(runtime, session, skills, is_new=new).run()
