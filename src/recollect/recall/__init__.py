"""Recall: finding the stored memories that bear on what is being said now."""
