-- What search knows of a message, in a table of its own: history never reads it, and search reads
-- all of one user's rows in one stretch.
CREATE TABLE search_rows (
    user_id TEXT NOT NULL,
    tenant_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    term_hashes BLOB NOT NULL,
    term_counts BLOB NOT NULL,
    PRIMARY KEY (user_id, tenant_id, number)
) STRICT, WITHOUT ROWID;
