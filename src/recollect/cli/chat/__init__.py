"""The chat in a terminal or a pipe."""
