"""Long-term memory on a remote memory gateway."""
