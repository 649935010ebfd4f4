"""The SQLite engine, through APSW."""
