"""Benchmarks of speed and quality: run `python -m benchmarks NAME` in the repository."""
