"""Recall: hybrid search (BM25 and vectors) over the stored messages of one user."""
