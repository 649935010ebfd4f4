"""Moderation: what people should not have to read."""
