"""Leaks: parts of the instructions that appear in the answer."""
