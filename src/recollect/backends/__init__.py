"""Long-term memories that a runtime can choose from: curated files, or a remote gateway."""
