-- Users, their threads and their messages. Messages refer to them by short integer keys, which AUTOINCREMENT
-- never gives twice. Every table that is keyed by text is keyed by the user first.
-- The tenant None has a reserved key. Times are microseconds since 1970 in UTC.

-- numbers: the last epoch, or number of a value or an event, that was given.
-- messages: the highest number of a deleted message, so that no later message gets it again.
-- unpurged: there while traces of erased users are to be removed from the file; it grows with each of them.
CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO counters (name, value) VALUES ('numbers', 0), ('messages', 0);

-- The key is the erase epoch too: erasing a user deletes the row, and a user who comes back has another key.
-- The epoch changes whenever something that was stored is deleted.
CREATE TABLE users (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    UNIQUE (user_id, tenant_id)
) STRICT;

-- An app and project of a user. Message ids are unique in each of them.
CREATE TABLE apps (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    owner INTEGER NOT NULL,
    app_id TEXT NOT NULL,
    project_id TEXT NOT NULL,
    UNIQUE (owner, app_id, project_id)
) STRICT;

CREATE TRIGGER delete_apps AFTER DELETE ON users
BEGIN
    DELETE FROM apps WHERE owner = old.key;
END;

-- expires_at is the earliest of the thread's messages; bytes is the length of their contents.
CREATE TABLE threads (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    app_id TEXT NOT NULL,
    project_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    owner INTEGER NOT NULL,
    app INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    last_message_at INTEGER,
    expires_at INTEGER,
    message_count INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    next_position INTEGER NOT NULL,
    title TEXT NOT NULL,
    metadata TEXT,
    UNIQUE (user_id, tenant_id, app_id, project_id, thread_id)
) STRICT;

-- place is the thread's key, shifted by 24 bits, plus the position: the messages of a thread lie together.
-- number grows over all users, in the order of commits.
-- unit is the position of the first message that must stay with this one: a tool call and its results.
-- role: 0 user, 1 assistant, 2 tool, 3 system. origin: 0 input, 1 response, 2 memory, 3 system.
-- text is all there is to most messages; parts has the rest as JSON where there is more. Both come last:
-- reading another column must not follow the pages of a long text.
CREATE TABLE messages (
    place INTEGER PRIMARY KEY,
    number INTEGER NOT NULL,
    unit INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    app INTEGER NOT NULL,
    role INTEGER NOT NULL,
    origin INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    message_id TEXT NOT NULL,
    run_id TEXT,
    metadata TEXT,
    text TEXT NOT NULL,
    parts TEXT
) STRICT;

CREATE UNIQUE INDEX messages_by_id ON messages (app, message_id);

CREATE UNIQUE INDEX messages_by_number ON messages (number);

-- The conversation of a user over all threads: what user and assistant said, in the order of commits.
CREATE INDEX messages_by_owner ON messages (owner, number) WHERE role < 2 AND text <> '';

CREATE INDEX messages_by_expiry ON messages (owner, expires_at) WHERE expires_at IS NOT NULL;

CREATE TRIGGER remember_deleted_number BEFORE DELETE ON messages
WHEN old.number > (SELECT value FROM counters WHERE name = 'messages')
BEGIN
    UPDATE counters SET value = old.number WHERE name = 'messages';
END;
