"""The benchmark of the guards: what they find, and how fast text streams through them."""
