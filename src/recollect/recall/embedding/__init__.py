"""Embedders, and the indexer that embeds stored messages in the background."""
