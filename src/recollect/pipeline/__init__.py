"""Runs processors over a prompt and an answer; it knows no guard, memory or model."""
