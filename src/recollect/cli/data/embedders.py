"""The option `--embedder`, of the commands that search and that index."""

from typing import Annotated

import typer

from recollect.errors import requires_extra

EmbedderName = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        help='"multilingual", or a provider\'s model, such as openai:text-embedding-3-small; '
        "without it the built-in one.",
    ),
]


def find_embedder(name: str) -> object:
    """Return an embedder by its name."""
    if name == "multilingual":
        from recollect.recall.embedding.multilingual import MultilingualEmbedder

        return MultilingualEmbedder()
    with requires_extra("agent"):
        from recollect.agent.provider import find_embedder as find_model
    return find_model(name)
