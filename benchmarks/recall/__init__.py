"""The benchmark of recall: quality and speed."""
