"""Measuring speed and quality: `python -m benchmarks NAME`, in the repository."""
