"""The benchmark of the store, against the bare drivers and a peer."""
