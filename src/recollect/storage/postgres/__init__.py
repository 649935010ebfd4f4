"""The PostgreSQL engine, through psycopg 3."""
