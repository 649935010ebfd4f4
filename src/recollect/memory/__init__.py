"""Memory as processors: history, semantic recall, working memory, and the class that provides them."""
