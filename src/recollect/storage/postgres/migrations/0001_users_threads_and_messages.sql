-- Users, their threads and their messages. Every table is keyed by the user first, so that the
-- database can be spread over machines by user_id. The tenant None has a reserved key.
-- Times are microseconds since 1970 in UTC. Text compares by its bytes, as it does in SQLite.

-- The source of integer ids and epochs, which are never used again.
CREATE SEQUENCE recollect.numbers AS bigint;

-- The epoch of a user changes whenever something that was stored is deleted; the erase epoch only when the
-- user is erased, because that deletes the row.
CREATE TABLE recollect.users (
    user_id text COLLATE "C" NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    erase_epoch bigint NOT NULL,
    PRIMARY KEY (user_id, tenant_id)
);

-- expires_at is the earliest of the thread's messages; bytes is the length of their contents.
CREATE TABLE recollect.threads (
    user_id text COLLATE "C" NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    app_id text COLLATE "C" NOT NULL,
    project_id text COLLATE "C" NOT NULL,
    thread_id text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    last_message_at bigint,
    expires_at bigint,
    message_count bigint NOT NULL,
    bytes bigint NOT NULL,
    next_position bigint NOT NULL,
    title text NOT NULL,
    metadata json,
    PRIMARY KEY (user_id, tenant_id, app_id, project_id, thread_id)
);

-- text is all there is to most messages; parts has the rest as JSON where there is more.
-- json, not jsonb: it gives back exactly what was written, numbers and the order of keys included.
-- unit is the position of the first message that must stay with this one: a tool call and its results.
CREATE TABLE recollect.messages (
    number bigint NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    app_id text COLLATE "C" NOT NULL,
    project_id text COLLATE "C" NOT NULL,
    thread_id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    unit bigint NOT NULL,
    message_id text COLLATE "C" NOT NULL,
    run_id text COLLATE "C",
    role text COLLATE "C" NOT NULL,
    origin text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    text text NOT NULL,
    parts json,
    metadata json,
    PRIMARY KEY (user_id, tenant_id, app_id, project_id, thread_id, position)
);

CREATE UNIQUE INDEX messages_by_id
    ON recollect.messages (user_id, tenant_id, app_id, project_id, message_id);

-- The conversation of a user over all threads: what user and assistant said, in the order of commits.
CREATE INDEX messages_by_user ON recollect.messages (user_id, tenant_id, number)
    WHERE role IN ('user', 'assistant') AND text <> '';

CREATE INDEX messages_by_expiry ON recollect.messages (user_id, tenant_id, expires_at)
    WHERE expires_at IS NOT NULL;

-- Deleting by integer id names no user; this is the only index that does not begin with one.
CREATE INDEX messages_by_number ON recollect.messages (number);

-- A second wall behind the WHERE clauses: without the right tenant set for the transaction no row exists, for
-- the owner of the tables too. A setting that was never set is NULL, one of an ended transaction is empty;
-- neither is a tenant.
ALTER TABLE recollect.users ENABLE ROW LEVEL SECURITY;
ALTER TABLE recollect.users FORCE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON recollect.users
    USING (tenant_id = current_setting('recollect.tenant_id', true));

ALTER TABLE recollect.threads ENABLE ROW LEVEL SECURITY;
ALTER TABLE recollect.threads FORCE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON recollect.threads
    USING (tenant_id = current_setting('recollect.tenant_id', true));

ALTER TABLE recollect.messages ENABLE ROW LEVEL SECURITY;
ALTER TABLE recollect.messages FORCE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON recollect.messages
    USING (tenant_id = current_setting('recollect.tenant_id', true));
