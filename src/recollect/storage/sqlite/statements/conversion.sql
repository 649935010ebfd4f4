-- From the layout before the first release to the present one, in one transaction: the old tables are set
-- aside, the migrations make new ones, the rows are copied, and the old tables are dropped.

-- name: longest_position
SELECT coalesce(max(position), 0) FROM messages

-- name: set_old_tables_aside
DROP INDEX messages_by_thread;
DROP INDEX messages_by_id;
DROP INDEX messages_by_user;
DROP INDEX vectors_by_message;
DROP INDEX vectors_by_user;
DROP INDEX events_by_thread;
ALTER TABLE counters RENAME TO old_counters;
ALTER TABLE users RENAME TO old_users;
ALTER TABLE threads RENAME TO old_threads;
ALTER TABLE messages RENAME TO old_messages;
ALTER TABLE vectors RENAME TO old_vectors;
ALTER TABLE user_memory RENAME TO old_user_memory;
ALTER TABLE user_state RENAME TO old_user_state;
ALTER TABLE working_memory RENAME TO old_working_memory;
ALTER TABLE events RENAME TO old_events;
DELETE FROM recollect_migrations;

-- fragment: tenant
CASE tenant_id WHEN 0 THEN '(system)' ELSE CAST(tenant_id AS TEXT) END

-- name: copy_old_rows
UPDATE counters SET value = (SELECT value FROM old_counters WHERE name = 'numbers');

INSERT INTO users (user_id, tenant_id, epoch)
SELECT user_id, {tenant}, epoch FROM old_users ORDER BY user_id, tenant_id;

INSERT INTO apps (owner, app_id, project_id)
SELECT DISTINCT users.key, app_id, project_id
FROM (SELECT user_id, {tenant} AS tenant_id, app_id, project_id FROM old_threads) AS old
JOIN users USING (user_id, tenant_id);

INSERT INTO threads (
    user_id, tenant_id, app_id, project_id, thread_id, owner, app, created_at, updated_at, last_message_at,
    message_count, bytes, next_position, title, metadata
)
SELECT old.user_id, old.tenant_id, old.app_id, old.project_id, old.thread_id, users.key, apps.key,
    old.created_at, old.updated_at, old.last_message_at, old.message_count, 0, old.next_position,
    old.title, old.metadata
FROM (
    SELECT user_id, {tenant} AS tenant_id, app_id, project_id, thread_id, created_at, updated_at,
        last_message_at, message_count, next_position, title, metadata
    FROM old_threads
) AS old
JOIN users USING (user_id, tenant_id)
JOIN apps ON apps.owner = users.key AND apps.app_id = old.app_id AND apps.project_id = old.project_id
ORDER BY old.created_at;

INSERT INTO messages (
    place, number, unit, owner, app, role, origin,
    created_at, expires_at, message_id, run_id, metadata, text, parts
)
SELECT (threads.key << 24) + old.position, old.number, old.unit, threads.owner, threads.app,
    CASE old.role WHEN 'user' THEN 0 WHEN 'assistant' THEN 1 WHEN 'tool' THEN 2 ELSE 3 END,
    CASE old.origin WHEN 'input' THEN 0 WHEN 'response' THEN 1 WHEN 'memory' THEN 2 ELSE 3 END,
    old.created_at, NULL, old.message_id, old.run_id, old.metadata, old.text, old.parts
FROM threads CROSS JOIN (
    SELECT user_id, {tenant} AS tenant_id, app_id, project_id, thread_id, position, number, unit, role, origin,
        created_at, message_id, run_id, metadata, text, parts
    FROM old_messages
) AS old USING (user_id, tenant_id, app_id, project_id, thread_id)
ORDER BY threads.key, old.position;

UPDATE threads SET bytes = (SELECT {content_bytes} FROM messages WHERE {in_thread});

INSERT INTO search_rows (place, kind, analyser, asks, term_hashes, term_counts)
SELECT number << 8, 0, 1, instr(text, '?') > 0 OR instr(text, '？') > 0 OR instr(text, '؟') > 0,
    term_hashes, term_counts
FROM old_messages WHERE term_hashes IS NOT NULL ORDER BY number;

INSERT INTO search_rows (place, kind, analyser, asks, term_hashes, term_counts, model_id, vector)
WITH RECURSIVE segments (segment) AS (SELECT 0 UNION ALL SELECT segment + 1 FROM segments WHERE segment < 255)
SELECT (number << 8) + segment, 0, 1, 0, x'', x'',
    model_id, substr(vectors, segment * dimensions * 2 + 1, dimensions * 2)
FROM old_vectors JOIN segments ON segment * dimensions * 2 < length(vectors)
WHERE true
ON CONFLICT (place) DO UPDATE SET model_id = excluded.model_id, vector = excluded.vector;

INSERT INTO user_memory SELECT user_id, {tenant}, key, number, value, updated_at FROM old_user_memory;

INSERT INTO user_state SELECT user_id, {tenant}, mode, updated_at FROM old_user_state;

INSERT INTO working_memory
SELECT user_id, {tenant}, app_id, project_id, thread_id, version, value, run_id, updated_at
FROM old_working_memory;

INSERT INTO events
SELECT user_id, {tenant}, number, app_id, project_id, thread_id, name, run_id, payload, context_visible,
    created_at
FROM old_events;

DROP TABLE old_counters;
DROP TABLE old_users;
DROP TABLE old_threads;
DROP TABLE old_messages;
DROP TABLE old_vectors;
DROP TABLE old_user_memory;
DROP TABLE old_user_state;
DROP TABLE old_working_memory;
DROP TABLE old_events;
