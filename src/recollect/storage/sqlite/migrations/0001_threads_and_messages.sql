-- Users, their threads and their messages. Every table is keyed by the user first.
-- tenant_id 0 stands for the tenant None. Times are microseconds since 1970 in UTC.

-- The source of integer ids and epochs, which are never used again.
CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO counters (name, value) VALUES ('numbers', 0);

-- The epoch of a user changes whenever something that was stored is removed.
CREATE TABLE users (
    user_id TEXT NOT NULL,
    tenant_id INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    PRIMARY KEY (user_id, tenant_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE threads (
    user_id TEXT NOT NULL,
    tenant_id INTEGER NOT NULL,
    app_id TEXT NOT NULL,
    project_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    title TEXT NOT NULL,
    metadata TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    last_message_at INTEGER,
    message_count INTEGER NOT NULL,
    next_position INTEGER NOT NULL,
    PRIMARY KEY (user_id, tenant_id, app_id, project_id, thread_id)
) STRICT, WITHOUT ROWID;

-- In the order of commits, so that writing goes to the end of the file whoever writes.
-- text is all there is to most messages; parts holds the rest as JSON where there is more.
-- unit is the position of the first message that must stay with this one: a tool call and its results.
-- The terms are what search knows of a message; they are NULL where it is not part of the talk.
CREATE TABLE messages (
    number INTEGER PRIMARY KEY,
    user_id TEXT NOT NULL,
    tenant_id INTEGER NOT NULL,
    app_id TEXT NOT NULL,
    project_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    unit INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    run_id TEXT,
    role TEXT NOT NULL,
    origin TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    text TEXT NOT NULL,
    parts TEXT,
    metadata TEXT,
    term_hashes BLOB,
    term_counts BLOB
) STRICT;

CREATE UNIQUE INDEX messages_by_thread
    ON messages (user_id, tenant_id, app_id, project_id, thread_id, position);

CREATE UNIQUE INDEX messages_by_id ON messages (user_id, tenant_id, app_id, project_id, message_id);

-- The talk of a user over all threads: what user and assistant said, in the order of commits.
CREATE INDEX messages_by_user ON messages (user_id, tenant_id, number) WHERE term_hashes IS NOT NULL;
