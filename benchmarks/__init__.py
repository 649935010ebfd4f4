"""Measuring speed and quality, one command each."""
