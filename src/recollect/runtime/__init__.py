"""The runtime of document B: configuration, loader, agent loop, sessions."""
