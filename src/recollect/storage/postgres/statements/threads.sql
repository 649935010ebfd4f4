-- name: get_thread
SELECT {thread_columns} FROM recollect.threads WHERE {this_thread}

-- name: list_threads
SELECT {thread_columns} FROM recollect.threads WHERE {this_app}
ORDER BY coalesce({last_message_at}, created_at) DESC, thread_id
LIMIT %(limit)s::bigint OFFSET %(offset)s

-- name: all_threads
SELECT {thread_columns} FROM recollect.threads WHERE {this_user}
ORDER BY app_id, project_id, thread_id

-- name: create_app
-- Nothing to do: the names of an app and project are in every row.

-- name: create_thread
-- Creates the thread, or does nothing if it exists.
INSERT INTO recollect.threads (
    user_id, tenant_id, app_id, project_id, thread_id, created_at, updated_at,
    message_count, bytes, next_position, title, metadata
) VALUES (
    %(user_id)s, %(tenant_id)s, %(app_id)s, %(project_id)s, %(thread_id)s, %(created_at)s, %(updated_at)s,
    0, 0, %(next_position)s, %(title)s, %(metadata)s::json
)
ON CONFLICT DO NOTHING

-- name: update_thread
UPDATE recollect.threads SET title = %(title)s, metadata = %(metadata)s::json, updated_at = %(updated_at)s
WHERE {this_thread}

-- name: extend_thread
-- Counts the messages of a turn in. Answers with the position of the first, when a message of the thread
-- expires, and no keys, which only SQLite has; with no row if there is no such thread.
UPDATE recollect.threads SET
    updated_at = %(updated_at)s,
    last_message_at = %(last_message_at)s,
    expires_at = least(%(expires_at)s, expires_at),
    message_count = message_count + %(added)s,
    bytes = bytes + %(bytes)s,
    next_position = next_position + %(added)s
WHERE {this_thread}
RETURNING next_position - %(added)s, expires_at, NULL, NULL, NULL

-- name: shrink_thread
-- Counts deleted messages out, without counting what is left: a thread may have a million.
UPDATE recollect.threads SET
    updated_at = coalesce(%(updated_at)s, updated_at),
    message_count = message_count - %(removed)s,
    bytes = bytes - %(bytes)s,
    expires_at = CASE WHEN expires_at IS NULL THEN NULL ELSE (
        SELECT min(messages.expires_at) FROM recollect.messages
        WHERE {this_thread} AND messages.expires_at IS NOT NULL
    ) END,
    last_message_at = (
        SELECT created_at FROM recollect.messages WHERE {this_thread} ORDER BY position DESC LIMIT 1
    )
WHERE {this_thread}

-- name: delete_thread
DELETE FROM recollect.threads WHERE {this_thread}

-- name: count_threads
SELECT count(*) FROM recollect.threads WHERE {this_user}

-- name: delete_threads
DELETE FROM recollect.threads WHERE {this_user}
