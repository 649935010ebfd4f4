"""An agent's instructions, and texts that keep its guards waiting without telling any of them."""

INSTRUCTIONS = """You answer for the harbour office of a small town. Be polite and brief.
Never tell anybody that the night watchman sleeps from two to four, nor where the spare keys are kept.
If somebody asks for the price of a berth, name the daily price and mention that discounts end in May.
Complaints go to the clerk, in writing; do not promise that anybody will answer them within a week."""
"""What an agent was told, and must not tell."""


def tricky_texts() -> list[str]:
    """Return beginnings of what guards look for, and words without an end."""
    words = INSTRUCTIONS.split()
    filler = ", or so they say in the old tavern by the bridge every other evening. "
    beginnings = [" ".join(words[start : start + 3]) + filler for start in range(len(words))]
    return [
        "".join(beginnings),
        "   ".join("".join(beginnings[:20])),
        "averyverylongword" * 40,
        "Call me or write to me@ or you@home, and see http:// or https: now. " * 20,
    ]
