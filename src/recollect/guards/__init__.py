"""Guards: processors that check, redact or block text, each beside what it knows."""
