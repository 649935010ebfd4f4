-- From the layout before the first release to the present one, in one transaction: the old tables move to a
-- schema of their own, the migrations make new ones, the rows are copied, and the old schema is dropped.
-- Row-level security binds the owner too where it is forced, so it is not while the rows of all tenants move.

-- name: longest_position
SELECT coalesce(max(position), 0) FROM recollect_old.messages

-- name: set_old_tables_aside
CREATE SCHEMA recollect_old;
ALTER TABLE recollect.users SET SCHEMA recollect_old;
ALTER TABLE recollect.threads SET SCHEMA recollect_old;
ALTER TABLE recollect.messages SET SCHEMA recollect_old;
ALTER TABLE recollect.vectors SET SCHEMA recollect_old;
ALTER TABLE recollect.user_memory SET SCHEMA recollect_old;
ALTER TABLE recollect.user_state SET SCHEMA recollect_old;
ALTER TABLE recollect.working_memory SET SCHEMA recollect_old;
ALTER TABLE recollect.events SET SCHEMA recollect_old;
ALTER SEQUENCE recollect.numbers SET SCHEMA recollect_old;
ALTER TABLE recollect_old.users NO FORCE ROW LEVEL SECURITY;
ALTER TABLE recollect_old.threads NO FORCE ROW LEVEL SECURITY;
ALTER TABLE recollect_old.messages NO FORCE ROW LEVEL SECURITY;
ALTER TABLE recollect_old.vectors NO FORCE ROW LEVEL SECURITY;
ALTER TABLE recollect_old.user_memory NO FORCE ROW LEVEL SECURITY;
ALTER TABLE recollect_old.user_state NO FORCE ROW LEVEL SECURITY;
ALTER TABLE recollect_old.working_memory NO FORCE ROW LEVEL SECURITY;
ALTER TABLE recollect_old.events NO FORCE ROW LEVEL SECURITY;
DELETE FROM recollect.migrations;

-- fragment: tenant
CASE tenant_id WHEN 0 THEN '(system)' ELSE tenant_id::text END

-- name: copy_old_rows
ALTER TABLE recollect.users NO FORCE ROW LEVEL SECURITY;
ALTER TABLE recollect.threads NO FORCE ROW LEVEL SECURITY;
ALTER TABLE recollect.messages NO FORCE ROW LEVEL SECURITY;
ALTER TABLE recollect.search_rows NO FORCE ROW LEVEL SECURITY;
ALTER TABLE recollect.user_memory NO FORCE ROW LEVEL SECURITY;
ALTER TABLE recollect.user_state NO FORCE ROW LEVEL SECURITY;
ALTER TABLE recollect.working_memory NO FORCE ROW LEVEL SECURITY;
ALTER TABLE recollect.events NO FORCE ROW LEVEL SECURITY;

SELECT setval('recollect.numbers', last_value, is_called) FROM recollect_old.numbers;

INSERT INTO recollect.users (user_id, tenant_id, epoch, erase_epoch)
SELECT user_id, {tenant}, epoch, nextval('recollect.numbers') FROM recollect_old.users;

INSERT INTO recollect.threads (
    user_id, tenant_id, app_id, project_id, thread_id, created_at, updated_at, last_message_at,
    message_count, bytes, next_position, title, metadata
)
SELECT user_id, {tenant}, app_id, project_id, thread_id, created_at, updated_at, last_message_at,
    message_count, (
        SELECT coalesce(sum(
            octet_length(text) + coalesce(octet_length(parts::text), 0)
            + coalesce(octet_length(old.metadata::text), 0)
        ), 0)
        FROM recollect_old.messages AS old
        WHERE old.user_id = threads.user_id AND old.tenant_id = threads.tenant_id
            AND old.app_id = threads.app_id AND old.project_id = threads.project_id
            AND old.thread_id = threads.thread_id
    ), next_position, title, metadata
FROM recollect_old.threads;

INSERT INTO recollect.messages (
    number, user_id, tenant_id, app_id, project_id, thread_id, position, unit, message_id, run_id,
    role, origin, created_at, text, parts, metadata
)
SELECT number, user_id, {tenant}, app_id, project_id, thread_id, position, unit, message_id, run_id,
    role, origin, created_at, text, parts, metadata
FROM recollect_old.messages;

INSERT INTO recollect.search_rows (
    user_id, tenant_id, number, segment, kind, analyser, asks, term_hashes, term_counts
)
SELECT user_id, {tenant}, number, 0, 0, 1,
    strpos(text, '?') > 0 OR strpos(text, '？') > 0 OR strpos(text, '؟') > 0, term_hashes, term_counts
FROM recollect_old.messages WHERE term_hashes IS NOT NULL;

INSERT INTO recollect.search_rows (
    user_id, tenant_id, number, segment, kind, analyser, asks, term_hashes, term_counts, model_id, vector
)
SELECT user_id, {tenant}, number, segment, 0, 1, false, '', '', model_id,
    substring(vectors FROM (segment * dimensions * 2 + 1)::int FOR (dimensions * 2)::int)
FROM recollect_old.vectors, generate_series(0, octet_length(vectors) / (dimensions * 2) - 1) AS segment
ON CONFLICT (user_id, tenant_id, number, segment) DO UPDATE SET
    model_id = excluded.model_id, vector = excluded.vector;

INSERT INTO recollect.user_memory
SELECT user_id, {tenant}, key, number, value, updated_at FROM recollect_old.user_memory;

INSERT INTO recollect.user_state SELECT user_id, {tenant}, mode, updated_at FROM recollect_old.user_state;

INSERT INTO recollect.working_memory
SELECT user_id, {tenant}, app_id, project_id, thread_id, version, value, run_id, updated_at
FROM recollect_old.working_memory;

INSERT INTO recollect.events
SELECT user_id, {tenant}, number, app_id, project_id, thread_id, name, run_id, payload, context_visible,
    created_at
FROM recollect_old.events;

ALTER TABLE recollect.users FORCE ROW LEVEL SECURITY;
ALTER TABLE recollect.threads FORCE ROW LEVEL SECURITY;
ALTER TABLE recollect.messages FORCE ROW LEVEL SECURITY;
ALTER TABLE recollect.search_rows FORCE ROW LEVEL SECURITY;
ALTER TABLE recollect.user_memory FORCE ROW LEVEL SECURITY;
ALTER TABLE recollect.user_state FORCE ROW LEVEL SECURITY;
ALTER TABLE recollect.working_memory FORCE ROW LEVEL SECURITY;
ALTER TABLE recollect.events FORCE ROW LEVEL SECURITY;

DROP SCHEMA recollect_old CASCADE;
