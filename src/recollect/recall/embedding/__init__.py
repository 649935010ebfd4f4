"""Embedders, and the indexer that embeds stored messages."""
