"""An agent with sessions and one long-term memory, set up by a configuration file."""
