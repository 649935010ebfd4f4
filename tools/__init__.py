"""Scripts that make tables and weights which the package ships; each says how to run it."""
