-- name: get_thread
SELECT {thread_columns} FROM recollect.threads WHERE {this_thread}

-- name: list_threads
SELECT {thread_columns} FROM recollect.threads WHERE {this_app}
ORDER BY coalesce(last_message_at, created_at) DESC, thread_id
LIMIT %(limit)s::bigint OFFSET %(offset)s

-- name: all_threads
SELECT {thread_columns} FROM recollect.threads WHERE {this_user}
ORDER BY app_id, project_id, thread_id

-- name: create_thread
-- Creates the thread, or does nothing where it is there already.
INSERT INTO recollect.threads (
    user_id, tenant_id, app_id, project_id, thread_id, title, metadata,
    created_at, updated_at, last_message_at, message_count, next_position
) VALUES (
    %(user_id)s, %(tenant_id)s, %(app_id)s, %(project_id)s, %(thread_id)s, %(title)s, %(metadata)s::json,
    %(created_at)s, %(updated_at)s, %(last_message_at)s, %(message_count)s, %(next_position)s
)
ON CONFLICT DO NOTHING

-- name: update_thread
UPDATE recollect.threads SET title = %(title)s, metadata = %(metadata)s::json, updated_at = %(updated_at)s
WHERE {this_thread}

-- name: extend_thread
-- Counts the messages of a turn in, and creates the thread where it is the first.
INSERT INTO recollect.threads (
    user_id, tenant_id, app_id, project_id, thread_id, title, metadata,
    created_at, updated_at, last_message_at, message_count, next_position
) VALUES (
    %(user_id)s, %(tenant_id)s, %(app_id)s, %(project_id)s, %(thread_id)s, %(title)s, NULL,
    %(updated_at)s, %(updated_at)s, %(last_message_at)s, %(added)s, %(next_position)s
)
ON CONFLICT (user_id, tenant_id, app_id, project_id, thread_id) DO UPDATE SET
    updated_at = excluded.updated_at,
    last_message_at = excluded.last_message_at,
    message_count = threads.message_count + excluded.message_count,
    next_position = excluded.next_position

-- name: recount_thread
UPDATE recollect.threads SET
    updated_at = %(updated_at)s,
    message_count = (SELECT count(*) FROM recollect.messages WHERE {this_thread}),
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
