"""Moderation of harmful text, by rules and optionally by a judge."""
