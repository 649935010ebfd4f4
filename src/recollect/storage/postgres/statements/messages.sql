-- name: insert_message
INSERT INTO recollect.messages (
    number, user_id, tenant_id, app_id, project_id, thread_id, position, unit, message_id, run_id,
    role, origin, created_at, expires_at, text, parts, metadata
) VALUES (
    %(number)s, %(user_id)s, %(tenant_id)s, %(app_id)s, %(project_id)s, %(thread_id)s,
    %(position)s, %(unit)s, %(message_id)s, %(run_id)s, %(role)s, %(origin)s, %(created_at)s,
    %(expires_at)s, %(text)s, %(parts)s::json, %(metadata)s::json
)

-- name: draw_message_numbers
-- Answers with each number.
SELECT nextval('recollect.numbers') FROM generate_series(1, %(count)s)

-- name: find_messages
-- Where messages are; ids is a JSON list.
SELECT message_id, thread_id, position, number, unit FROM recollect.messages
WHERE {this_app} AND message_id IN (SELECT value FROM json_array_elements_text(%(ids)s::json))
    AND {unexpired}

-- name: find_number
-- The one look-up over all users of a tenant.
SELECT user_id, app_id, project_id, thread_id, message_id FROM recollect.messages
WHERE number = %(number)s AND tenant_id = %(tenant_id)s AND {unexpired}

-- name: messages_up_to
-- The last messages before a position, newest first.
SELECT {message_columns} FROM recollect.messages
WHERE {this_thread} AND position < %(before)s AND {unexpired}
ORDER BY position DESC LIMIT %(limit)s::bigint

-- name: messages_from
-- The first messages after a position, oldest first.
SELECT {message_columns} FROM recollect.messages
WHERE {this_thread} AND position > %(after)s AND {unexpired}
ORDER BY position LIMIT %(limit)s::bigint

-- name: messages_between
-- The messages from one position up to and without another.
SELECT {message_columns} FROM recollect.messages
WHERE {this_thread} AND position >= %(low)s AND position < %(high)s AND {unexpired} ORDER BY position

-- name: messages_of_unit
-- What belongs to a unit after a position. Units have no gaps, so the first other one ends it; without
-- that bound the rest of the thread would be read.
SELECT {message_columns} FROM recollect.messages
WHERE {this_thread} AND position > %(after)s AND unit = %(unit)s AND position < coalesce(
    (
        SELECT position FROM recollect.messages
        WHERE {this_thread} AND position > %(after)s AND unit <> %(unit)s ORDER BY position LIMIT 1
    ),
    9223372036854775807
) AND {unexpired}
ORDER BY position

-- name: page_of_messages
SELECT {message_columns} FROM recollect.messages WHERE {this_thread} AND {unexpired}
ORDER BY position LIMIT %(limit)s::bigint OFFSET %(offset)s

-- name: user_history
-- What user and assistant said, over all threads, apps and projects of the user.
SELECT {message_columns} FROM recollect.messages
WHERE {this_user} AND {conversation} AND {unexpired}
ORDER BY number DESC LIMIT %(limit)s::bigint OFFSET %(offset)s

-- name: count_user_history
SELECT count(*) FROM recollect.messages WHERE {this_user} AND {conversation} AND {unexpired}

-- name: messages_by_number
-- numbers is a JSON list.
SELECT {message_columns} FROM recollect.messages
WHERE {this_user} AND number IN {numbers} AND {unexpired}
ORDER BY number

-- name: messages_with_prefix
-- Messages whose ids lie between two texts, as those of one run do.
SELECT {message_columns} FROM recollect.messages
WHERE {this_app} AND message_id >= %(low)s AND message_id < %(high)s AND {unexpired}
ORDER BY number

-- name: join_unit
-- Ties everything after a tool call to it.
UPDATE recollect.messages SET unit = %(unit)s WHERE {this_thread} AND position > %(unit)s

-- name: align_expiry
-- The messages of a unit at the end of a thread expire together, with the first of them. A message among them
-- that had expired before the unit was complete takes nothing along.
UPDATE recollect.messages SET expires_at = (
    SELECT min(expires_at) FROM recollect.messages
    WHERE {this_thread} AND position >= %(unit)s AND unit = %(unit)s AND expires_at > %(now)s
)
WHERE {this_thread} AND position >= %(unit)s AND unit = %(unit)s AND {unexpired}

-- name: rich_messages
-- The messages from a position on that are more than text, newest first, to find a call of an earlier turn.
SELECT position, unit, parts::text FROM recollect.messages
WHERE {this_thread} AND position >= %(low)s AND parts IS NOT NULL AND {unexpired}
ORDER BY position DESC

-- fragment: in_unit
-- Units have no gaps, so the first message of another one ends it.
{this_thread} AND position >= %(unit)s AND position < coalesce(
    (
        SELECT position FROM recollect.messages
        WHERE {this_thread} AND position > %(unit)s AND unit <> %(unit)s ORDER BY position LIMIT 1
    ),
    9223372036854775807
)

-- name: rich_messages_of_unit
-- The messages of a unit that are more than text.
SELECT position, parts::text FROM recollect.messages WHERE {in_unit} AND parts IS NOT NULL AND {unexpired}

-- name: delete_positions
-- positions is a JSON list.
DELETE FROM recollect.messages
WHERE {this_thread}
    AND position IN (SELECT value::bigint FROM json_array_elements_text(%(positions)s::json))
RETURNING number, {message_bytes}

-- name: dissolve_unit
-- Makes each message that is left of a unit one of its own.
UPDATE recollect.messages SET unit = position WHERE {in_unit} AND {unexpired}

-- name: delete_thread_messages
DELETE FROM recollect.messages WHERE {this_thread}

-- name: message_chunks
-- The numbers of a user's messages, as JSON lists of a size, in order.
SELECT json_agg(number)::text FROM (
    SELECT number, (row_number() OVER (ORDER BY number) - 1) / %(size)s AS chunk
    FROM recollect.messages WHERE {this_user} AND {unexpired}
) AS numbered GROUP BY chunk ORDER BY chunk

-- name: messages_of_chunk
-- numbers is a JSON list.
SELECT app_id, project_id, {message_columns} FROM recollect.messages
WHERE {this_user} AND number IN {numbers} ORDER BY number

-- name: count_messages
SELECT count(*) FROM recollect.messages WHERE {this_user}

-- name: delete_messages
DELETE FROM recollect.messages WHERE {this_user}

-- fragment: expired_messages
-- The numbers of a user's messages that have expired, those first that did so first. An array: a join of rows
-- that the planner takes for few would compare each with each.
ARRAY(
    SELECT number FROM recollect.messages WHERE {this_user} AND expires_at <= %(now)s
    ORDER BY expires_at, number LIMIT %(limit)s::bigint
)

-- name: expired_threads
-- The threads that have expired messages, how many, and their bytes.
SELECT app_id, project_id, thread_id, count(*), {content_bytes} FROM recollect.messages
WHERE {this_user} AND number = ANY ({expired_messages})
GROUP BY app_id, project_id, thread_id

-- name: count_expired
SELECT count(*) FROM recollect.messages WHERE {this_user} AND expires_at <= %(now)s

-- name: delete_expired
DELETE FROM recollect.messages
WHERE {this_user} AND number = ANY ({expired_messages})
RETURNING number

-- name: old_threads
-- The threads that have old messages, and how many: those of units that were all written before a time.
SELECT app_id, project_id, thread_id, count(*) FROM (
    SELECT app_id, project_id, thread_id,
        max(created_at) OVER (PARTITION BY app_id, project_id, thread_id, unit) AS newest
    FROM recollect.messages WHERE {this_user} AND {unexpired}
) AS dated WHERE newest < %(before)s GROUP BY app_id, project_id, thread_id

-- name: next_unit
-- Where the first unit begins, from a position on.
SELECT position FROM recollect.messages
WHERE {this_thread} AND position >= %(after)s AND unit = position ORDER BY position LIMIT 1

-- name: delete_old
-- Deletes the old messages of a thread from one position up to another; both begin a unit.
DELETE FROM recollect.messages
WHERE {this_thread} AND position = ANY (ARRAY(
    SELECT position FROM (
        SELECT position, max(created_at) OVER (PARTITION BY unit) AS newest FROM recollect.messages
        WHERE {this_thread} AND position >= %(low)s AND position < %(high)s AND {unexpired}
    ) AS dated WHERE newest < %(before)s
))
RETURNING number, {message_bytes}
