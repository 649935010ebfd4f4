"""Curated memory: two Markdown files that people can read and edit, and that the model keeps by a tool."""
