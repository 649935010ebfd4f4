"""Where everything is kept: one contract (`store.Store`), two engines."""
