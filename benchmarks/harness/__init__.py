"""What all benchmarks share: timing, reports, machines, and stores and peers to measure on."""
