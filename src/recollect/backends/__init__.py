"""The long-term memories of a runtime: curated files or a remote gateway."""
