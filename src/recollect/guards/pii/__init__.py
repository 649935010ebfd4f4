"""Finding personal data and secrets in text by patterns, checksums and the words around them."""
