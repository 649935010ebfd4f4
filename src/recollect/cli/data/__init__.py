"""Commands that read, move and erase stored data."""
