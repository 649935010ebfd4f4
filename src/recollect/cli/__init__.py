"""The `recollect` command, one file for each of its commands."""
