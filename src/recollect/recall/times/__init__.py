"""Times that people name in words, as intervals."""
