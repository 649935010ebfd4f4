"""The command of each benchmark."""
