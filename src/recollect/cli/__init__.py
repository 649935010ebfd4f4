"""The `recollect` command, one file for each command or group of commands."""
