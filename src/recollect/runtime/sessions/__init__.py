"""Sessions of the runtime: their records, search and the tool that reads them."""
