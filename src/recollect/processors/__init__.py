"""Processors: everything that may change what the model sees, what the user sees, or what is kept."""
