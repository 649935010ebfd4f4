"""The agent: a model, tools, and one pipeline of processors around them."""
