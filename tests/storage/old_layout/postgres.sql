CREATE SCHEMA recollect;
-- Users, their threads and their messages. Every table is keyed by the user first, so that the
-- database can be spread over machines by user_id. tenant_id 0 stands for the tenant None.
-- Times are microseconds since 1970 in UTC. Text compares by its bytes, as it does in SQLite.

-- The source of integer ids and epochs, which are never used again.
CREATE SEQUENCE recollect.numbers AS bigint;

-- The epoch of a user changes whenever something that was stored is removed.
CREATE TABLE recollect.users (
    user_id text COLLATE "C" NOT NULL,
    tenant_id bigint NOT NULL,
    epoch bigint NOT NULL,
    PRIMARY KEY (user_id, tenant_id)
);

CREATE TABLE recollect.threads (
    user_id text COLLATE "C" NOT NULL,
    tenant_id bigint NOT NULL,
    app_id text COLLATE "C" NOT NULL,
    project_id text COLLATE "C" NOT NULL,
    thread_id text COLLATE "C" NOT NULL,
    title text NOT NULL,
    metadata json,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    last_message_at bigint,
    message_count bigint NOT NULL,
    next_position bigint NOT NULL,
    PRIMARY KEY (user_id, tenant_id, app_id, project_id, thread_id)
);

-- text is all there is to most messages; parts holds the rest as JSON where there is more.
-- json, not jsonb: it gives back exactly what was written, numbers and the order of keys included.
-- unit is the position of the first message that must stay with this one: a tool call and its results.
-- The terms are what search knows of a message; they are NULL where it is not part of the talk.
CREATE TABLE recollect.messages (
    number bigint NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    tenant_id bigint NOT NULL,
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
    text text NOT NULL,
    parts json,
    metadata json,
    term_hashes bytea,
    term_counts bytea,
    PRIMARY KEY (user_id, tenant_id, app_id, project_id, thread_id, position)
);

CREATE UNIQUE INDEX messages_by_id
    ON recollect.messages (user_id, tenant_id, app_id, project_id, message_id);

-- The talk of a user over all threads: what user and assistant said, in the order of commits.
CREATE INDEX messages_by_user
    ON recollect.messages (user_id, tenant_id, number) WHERE term_hashes IS NOT NULL;

-- Deleting by integer id names no user; this is the only index that does not begin with one.
CREATE INDEX messages_by_number ON recollect.messages (number);

-- A second wall behind the WHERE clauses: without the right tenant set for the transaction
-- no row exists, for the owner of the tables too.
ALTER TABLE recollect.users ENABLE ROW LEVEL SECURITY;
ALTER TABLE recollect.users FORCE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON recollect.users
    USING (tenant_id = nullif(current_setting('recollect.tenant_id', true), '')::bigint);

ALTER TABLE recollect.threads ENABLE ROW LEVEL SECURITY;
ALTER TABLE recollect.threads FORCE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON recollect.threads
    USING (tenant_id = nullif(current_setting('recollect.tenant_id', true), '')::bigint);

ALTER TABLE recollect.messages ENABLE ROW LEVEL SECURITY;
ALTER TABLE recollect.messages FORCE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON recollect.messages
    USING (tenant_id = nullif(current_setting('recollect.tenant_id', true), '')::bigint);
-- Values that are kept about a user by key, and the mode that the user is in.
CREATE TABLE recollect.user_memory (
    user_id text COLLATE "C" NOT NULL,
    tenant_id bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    value json NOT NULL,
    updated_at bigint NOT NULL,
    PRIMARY KEY (user_id, tenant_id, key)
);

CREATE TABLE recollect.user_state (
    user_id text COLLATE "C" NOT NULL,
    tenant_id bigint NOT NULL,
    mode text NOT NULL,
    updated_at bigint NOT NULL,
    PRIMARY KEY (user_id, tenant_id)
);

ALTER TABLE recollect.user_memory ENABLE ROW LEVEL SECURITY;
ALTER TABLE recollect.user_memory FORCE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON recollect.user_memory
    USING (tenant_id = nullif(current_setting('recollect.tenant_id', true), '')::bigint);

ALTER TABLE recollect.user_state ENABLE ROW LEVEL SECURITY;
ALTER TABLE recollect.user_state FORCE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON recollect.user_state
    USING (tenant_id = nullif(current_setting('recollect.tenant_id', true), '')::bigint);
-- What the embedder made of messages: one row for each, written some time after the message.
-- stamp grows with every write to a user's rows, so that caches read only what is new.
-- spans are the pieces of a long text, a pair of little-endian 32-bit numbers each; vectors holds one
-- vector of half-precision floats for each piece.
CREATE TABLE recollect.vectors (
    stamp bigint NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    tenant_id bigint NOT NULL,
    number bigint NOT NULL,
    model_id text COLLATE "C" NOT NULL,
    dimensions bigint NOT NULL,
    spans bytea NOT NULL,
    vectors bytea NOT NULL,
    PRIMARY KEY (user_id, tenant_id, number)
);

CREATE INDEX vectors_by_user ON recollect.vectors (user_id, tenant_id, stamp);

-- Half-precision floats do not compress; trying to would only cost time.
ALTER TABLE recollect.vectors ALTER COLUMN vectors SET STORAGE EXTERNAL;

ALTER TABLE recollect.vectors ENABLE ROW LEVEL SECURITY;
ALTER TABLE recollect.vectors FORCE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON recollect.vectors
    USING (tenant_id = nullif(current_setting('recollect.tenant_id', true), '')::bigint);
-- Working memory: the fields that an agent keeps about a user, or in one thread, in versions.
-- What belongs to the user and not to a thread has the empty app, project and thread, which no real one has.
CREATE TABLE recollect.working_memory (
    user_id text COLLATE "C" NOT NULL,
    tenant_id bigint NOT NULL,
    app_id text COLLATE "C" NOT NULL,
    project_id text COLLATE "C" NOT NULL,
    thread_id text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    value json NOT NULL,
    run_id text COLLATE "C",
    updated_at bigint NOT NULL,
    PRIMARY KEY (user_id, tenant_id, app_id, project_id, thread_id, version)
);

ALTER TABLE recollect.working_memory ENABLE ROW LEVEL SECURITY;
ALTER TABLE recollect.working_memory FORCE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON recollect.working_memory
    USING (tenant_id = nullif(current_setting('recollect.tenant_id', true), '')::bigint);
-- Audit events of a session: what was done for a run, for people to look into. They are never a part of the
-- talk; context_visible says so to whoever reads the table, and the check keeps it true.
-- An event may be older than its session's first message, so its thread need not be there.
CREATE TABLE recollect.events (
    user_id text COLLATE "C" NOT NULL,
    tenant_id bigint NOT NULL,
    number bigint NOT NULL,
    app_id text COLLATE "C" NOT NULL,
    project_id text COLLATE "C" NOT NULL,
    thread_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    run_id text COLLATE "C",
    payload json NOT NULL,
    context_visible boolean NOT NULL DEFAULT false CHECK (NOT context_visible),
    created_at bigint NOT NULL,
    PRIMARY KEY (user_id, tenant_id, number)
);

CREATE INDEX events_by_thread
    ON recollect.events (user_id, tenant_id, app_id, project_id, thread_id, number);

ALTER TABLE recollect.events ENABLE ROW LEVEL SECURITY;
ALTER TABLE recollect.events FORCE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON recollect.events
    USING (tenant_id = nullif(current_setting('recollect.tenant_id', true), '')::bigint);
CREATE TABLE recollect.migrations (number bigint PRIMARY KEY, name text NOT NULL, applied_at bigint NOT NULL);
INSERT INTO recollect.migrations VALUES (1, '0001_threads_and_messages', 1);
INSERT INTO recollect.migrations VALUES (2, '0002_user_memory_and_state', 1);
INSERT INTO recollect.migrations VALUES (3, '0003_vectors', 1);
INSERT INTO recollect.migrations VALUES (4, '0004_working_memory', 1);
INSERT INTO recollect.migrations VALUES (5, '0005_events', 1);
