-- Values that are stored about a user by key, and the mode that the user is in.
CREATE TABLE user_memory (
    user_id TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    key TEXT NOT NULL,
    number INTEGER NOT NULL,
    value TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, tenant_id, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE user_state (
    user_id TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    mode TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, tenant_id)
) STRICT, WITHOUT ROWID;
