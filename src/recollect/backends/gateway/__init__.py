"""A memory gateway as long-term memory: its client, and the backend on it."""
