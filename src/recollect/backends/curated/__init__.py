"""Long-term memory in two Markdown files."""
