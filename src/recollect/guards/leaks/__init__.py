"""Leaks: what a model was told and must not tell, found again in what it says."""
