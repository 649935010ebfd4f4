"""Unicode: what cannot be seen, what only looks like something else, and how text is made plain."""
