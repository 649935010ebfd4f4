"""What users and this project test with: a scripted model, the store contract, and databases to run it on."""

from recollect.testing.scripted import ScriptedModel

__all__ = ["ScriptedModel"]
