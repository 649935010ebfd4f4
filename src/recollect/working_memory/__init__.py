"""Working memory without I/O: its value, how it is merged, and which fields a template or a schema has."""
