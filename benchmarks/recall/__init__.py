"""The benchmark of recall: what it finds, and how long it takes."""
