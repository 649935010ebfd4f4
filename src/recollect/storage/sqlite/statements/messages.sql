-- name: insert_message
INSERT INTO messages (
    number, user_id, tenant_id, app_id, project_id, thread_id, position, unit, message_id, run_id,
    role, origin, created_at, text, parts, metadata, term_hashes, term_counts
) VALUES (
    :number, :user_id, :tenant_id, :app_id, :project_id, :thread_id,
    :position, :unit, :message_id, :run_id, :role, :origin, :created_at,
    :text, :parts, :metadata, :term_hashes, :term_counts
)

-- name: find_messages
-- Where messages stand; ids is a JSON list. Without the hint SQLite would walk through all messages
-- of the user.
SELECT message_id, thread_id, position, number, unit FROM messages INDEXED BY messages_by_id
WHERE {this_app} AND message_id IN (SELECT value FROM json_each(:ids))

-- name: find_number
-- The one look-up over all users of a tenant.
SELECT user_id, app_id, project_id, thread_id, message_id FROM messages
WHERE number = :number AND tenant_id = :tenant_id

-- name: messages_up_to
-- The last messages before a position, newest first.
SELECT {message_columns} FROM messages WHERE {this_thread} AND position < :before
ORDER BY position DESC LIMIT coalesce(:limit, -1)

-- name: messages_from
-- The first messages after a position, oldest first.
SELECT {message_columns} FROM messages WHERE {this_thread} AND position > :after
ORDER BY position LIMIT coalesce(:limit, -1)

-- name: messages_between
-- The messages from one position up to and without another.
SELECT {message_columns} FROM messages
WHERE {this_thread} AND position >= :low AND position < :high ORDER BY position

-- name: messages_of_unit
-- What belongs to a unit after a position. Units have no gaps, so the first other one ends it; without
-- that bound the rest of the thread would be read.
SELECT {message_columns} FROM messages
WHERE {this_thread} AND position > :after AND unit = :unit AND position < coalesce(
    (
        SELECT position FROM messages
        WHERE {this_thread} AND position > :after AND unit <> :unit ORDER BY position LIMIT 1
    ),
    9223372036854775807
)
ORDER BY position

-- name: page_of_messages
SELECT {message_columns} FROM messages WHERE {this_thread}
ORDER BY position LIMIT coalesce(:limit, -1) OFFSET :offset

-- name: user_history
-- What user and assistant said, over all threads, apps and projects of the user.
SELECT {message_columns} FROM messages
WHERE {this_user} AND term_hashes IS NOT NULL
ORDER BY number DESC LIMIT coalesce(:limit, -1) OFFSET :offset

-- name: count_user_history
SELECT count(*) FROM messages WHERE {this_user} AND term_hashes IS NOT NULL

-- name: search_rows_from
-- The newest rows, newest first.
SELECT number, app_id, project_id, thread_id, position, created_at, {speaker}, {asks},
    term_hashes, term_counts
FROM messages WHERE {this_user} AND term_hashes IS NOT NULL AND number > :after
ORDER BY number DESC LIMIT coalesce(:limit, -1)

-- name: messages_by_number
-- numbers is a JSON list. Without the hint SQLite would walk through all messages of the user.
SELECT {message_columns} FROM messages NOT INDEXED
WHERE {this_user} AND number IN (SELECT value FROM json_each(:numbers)) ORDER BY number

-- name: messages_with_prefix
-- Messages whose ids lie between two texts, as those of one run do.
SELECT {message_columns} FROM messages
WHERE {this_app} AND message_id >= :low AND message_id < :high
ORDER BY number

-- name: join_unit
-- Ties everything after a tool call to it.
UPDATE messages SET unit = :unit WHERE {this_thread} AND position > :unit

-- name: rich_messages
-- The messages that are more than text, newest first, to find a tool call of an earlier turn.
SELECT unit, parts FROM messages WHERE {this_thread} AND parts IS NOT NULL
ORDER BY position DESC

-- name: delete_unit
DELETE FROM messages
WHERE {this_thread} AND position >= :unit AND unit = :unit AND position < coalesce(
    (
        SELECT position FROM messages
        WHERE {this_thread} AND position > :unit AND unit <> :unit ORDER BY position LIMIT 1
    ),
    9223372036854775807
)
RETURNING number

-- name: delete_thread_messages
DELETE FROM messages WHERE {this_thread}

-- name: all_messages
SELECT app_id, project_id, {message_columns} FROM messages WHERE {this_user} ORDER BY number

-- name: count_messages
SELECT count(*) FROM messages WHERE {this_user}

-- name: delete_messages
DELETE FROM messages WHERE {this_user}
