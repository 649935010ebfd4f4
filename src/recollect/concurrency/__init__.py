"""Threads, background tasks and the bridge from sync to async."""
