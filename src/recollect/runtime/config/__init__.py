"""The configuration file and the objects it describes."""
