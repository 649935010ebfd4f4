-- name: get_thread
SELECT {thread_columns} FROM threads WHERE {this_thread}

-- name: list_threads
SELECT {thread_columns} FROM threads WHERE {this_app}
ORDER BY coalesce(last_message_at, created_at) DESC, thread_id
LIMIT coalesce(:limit, -1) OFFSET :offset

-- name: all_threads
SELECT {thread_columns} FROM threads WHERE {this_user}
ORDER BY app_id, project_id, thread_id

-- name: create_thread
-- Creates the thread, or does nothing where it is there already.
INSERT INTO threads (
    user_id, tenant_id, app_id, project_id, thread_id, title, metadata,
    created_at, updated_at, last_message_at, message_count, next_position
) VALUES (
    :user_id, :tenant_id, :app_id, :project_id, :thread_id, :title, :metadata,
    :created_at, :updated_at, :last_message_at, :message_count, :next_position
)
ON CONFLICT DO NOTHING

-- name: update_thread
UPDATE threads SET title = :title, metadata = :metadata, updated_at = :updated_at
WHERE {this_thread}

-- name: extend_thread
-- Counts the messages of a turn in, and creates the thread where it is the first.
INSERT INTO threads (
    user_id, tenant_id, app_id, project_id, thread_id, title, metadata,
    created_at, updated_at, last_message_at, message_count, next_position
) VALUES (
    :user_id, :tenant_id, :app_id, :project_id, :thread_id, :title, NULL,
    :updated_at, :updated_at, :last_message_at, :added, :next_position
)
ON CONFLICT (user_id, tenant_id, app_id, project_id, thread_id) DO UPDATE SET
    updated_at = excluded.updated_at,
    last_message_at = excluded.last_message_at,
    message_count = threads.message_count + excluded.message_count,
    next_position = excluded.next_position

-- name: recount_thread
UPDATE threads SET
    updated_at = :updated_at,
    message_count = (SELECT count(*) FROM messages WHERE {this_thread}),
    last_message_at = (
        SELECT created_at FROM messages WHERE {this_thread} ORDER BY position DESC LIMIT 1
    )
WHERE {this_thread}

-- name: delete_thread
DELETE FROM threads WHERE {this_thread}

-- name: count_threads
SELECT count(*) FROM threads WHERE {this_user}

-- name: delete_threads
DELETE FROM threads WHERE {this_user}
