"""Pure functions of text: no messages, no I/O."""
