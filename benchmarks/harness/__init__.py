"""Shared by all benchmarks: timing, reports, facts of the machine, filled stores and peers."""
