"""Where everything is kept: one contract (`base.Store`), two engines."""
