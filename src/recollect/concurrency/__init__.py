"""Threads, background tasks, forks, and the bridge from sync to async."""
