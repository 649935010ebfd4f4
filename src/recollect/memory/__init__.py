"""Memory as processors: history, semantic recall, working memory, and `Memory`, which provides them."""
