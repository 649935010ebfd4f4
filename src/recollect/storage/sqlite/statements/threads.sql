-- name: get_thread
SELECT {thread_columns} FROM threads WHERE {this_thread}

-- name: list_threads
SELECT {thread_columns} FROM threads WHERE {this_app}
ORDER BY coalesce({last_message_at}, created_at) DESC, thread_id
LIMIT coalesce(:limit, -1) OFFSET :offset

-- name: all_threads
SELECT {thread_columns} FROM threads WHERE {this_user}
ORDER BY app_id, project_id, thread_id

-- name: create_app
-- Makes sure of the key that messages of an app and project have; runs after `lock_user`.
INSERT INTO apps (owner, app_id, project_id)
SELECT {owner}, :app_id, :project_id WHERE {app} IS NULL

-- name: create_thread
-- Creates the thread, or does nothing if it exists; runs after `create_app`.
INSERT INTO threads (
    user_id, tenant_id, app_id, project_id, thread_id, owner, app, created_at, updated_at,
    message_count, bytes, next_position, title, metadata
) VALUES (
    :user_id, :tenant_id, :app_id, :project_id, :thread_id, {owner}, {app}, :created_at, :updated_at,
    0, 0, :next_position, :title, :metadata
)
ON CONFLICT DO NOTHING

-- name: update_thread
UPDATE threads SET title = :title, metadata = :metadata, updated_at = :updated_at
WHERE {this_thread}

-- name: extend_thread
-- Counts the messages of a turn in. Answers with the position of the first, when a message of the thread
-- expires, and the keys that the messages get; with no row if there is no such thread.
UPDATE threads SET
    updated_at = :updated_at,
    last_message_at = :last_message_at,
    expires_at = CASE WHEN :expires_at IS NULL THEN expires_at
        ELSE min(:expires_at, coalesce(expires_at, :expires_at)) END,
    message_count = message_count + :added,
    bytes = bytes + :bytes,
    next_position = next_position + :added
WHERE {this_thread}
RETURNING next_position - :added, expires_at, key, owner, app

-- name: shrink_thread
-- Counts deleted messages out, without counting what is left: a thread may have a million. The next expiry of
-- a short thread is read from its messages, that of a long one from the index.
UPDATE threads SET
    updated_at = coalesce(:updated_at, updated_at),
    message_count = message_count - :removed,
    bytes = bytes - :bytes,
    expires_at = CASE WHEN expires_at IS NULL THEN NULL
        WHEN message_count - :removed < 1000 THEN (
            SELECT min(messages.expires_at) FROM messages WHERE {in_thread}
        )
        ELSE (
            SELECT messages.expires_at FROM messages INDEXED BY messages_by_expiry
            WHERE messages.owner = threads.owner AND messages.expires_at IS NOT NULL AND {in_thread}
            ORDER BY messages.expires_at LIMIT 1
        )
    END,
    last_message_at = (
        SELECT messages.created_at FROM messages WHERE {in_thread} ORDER BY messages.place DESC LIMIT 1
    )
WHERE {this_thread}

-- name: delete_thread
DELETE FROM threads WHERE {this_thread}

-- name: count_threads
SELECT count(*) FROM threads WHERE {this_user}

-- name: delete_threads
DELETE FROM threads WHERE {this_user}
