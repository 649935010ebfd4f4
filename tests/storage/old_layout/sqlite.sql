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
-- Values that are kept about a user by key, and the mode that the user is in.
CREATE TABLE user_memory (
    user_id TEXT NOT NULL,
    tenant_id INTEGER NOT NULL,
    key TEXT NOT NULL,
    number INTEGER NOT NULL,
    value TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, tenant_id, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE user_state (
    user_id TEXT NOT NULL,
    tenant_id INTEGER NOT NULL,
    mode TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, tenant_id)
) STRICT, WITHOUT ROWID;
-- What the embedder made of messages: one row for each, written some time after the message.
-- stamp grows with every write to a user's rows, so that caches read only what is new.
-- spans are the pieces of a long text, a pair of little-endian 32-bit numbers each; vectors holds one
-- vector of half-precision floats for each piece. Rows lie in the order of commits.
CREATE TABLE vectors (
    stamp INTEGER PRIMARY KEY,
    user_id TEXT NOT NULL,
    tenant_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    model_id TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    spans BLOB NOT NULL,
    vectors BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX vectors_by_message ON vectors (user_id, tenant_id, number);

CREATE INDEX vectors_by_user ON vectors (user_id, tenant_id, stamp);
-- Working memory: the fields that an agent keeps about a user, or in one thread, in versions.
-- What belongs to the user and not to a thread has the empty app, project and thread, which no real one has.
CREATE TABLE working_memory (
    user_id TEXT NOT NULL,
    tenant_id INTEGER NOT NULL,
    app_id TEXT NOT NULL,
    project_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    value TEXT NOT NULL,
    run_id TEXT,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, tenant_id, app_id, project_id, thread_id, version)
) STRICT, WITHOUT ROWID;
-- Audit events of a session: what was done for a run, for people to look into. They are never a part of the
-- talk; context_visible says so to whoever reads the table, and the check keeps it true.
-- An event may be older than its session's first message, so its thread need not be there.
CREATE TABLE events (
    user_id TEXT NOT NULL,
    tenant_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    app_id TEXT NOT NULL,
    project_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    name TEXT NOT NULL,
    run_id TEXT,
    payload TEXT NOT NULL,
    context_visible INTEGER NOT NULL DEFAULT 0 CHECK (context_visible = 0),
    created_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, tenant_id, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX events_by_thread ON events (user_id, tenant_id, app_id, project_id, thread_id, number);
CREATE TABLE recollect_migrations (number INTEGER PRIMARY KEY, name text NOT NULL, applied_at INTEGER NOT NULL);
INSERT INTO recollect_migrations VALUES (1, '0001_threads_and_messages', 1);
INSERT INTO recollect_migrations VALUES (2, '0002_user_memory_and_state', 1);
INSERT INTO recollect_migrations VALUES (3, '0003_vectors', 1);
INSERT INTO recollect_migrations VALUES (4, '0004_working_memory', 1);
INSERT INTO recollect_migrations VALUES (5, '0005_events', 1);
