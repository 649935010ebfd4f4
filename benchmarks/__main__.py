"""`python -m benchmarks NAME`, in the repository."""

from benchmarks.cli import app

app(prog_name="python -m benchmarks")
