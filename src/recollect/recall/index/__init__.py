"""The search index of one user, as arrays in memory."""
