-- name: insert_message
INSERT INTO messages (
    place, number, unit, owner, app, role, origin,
    created_at, expires_at, message_id, run_id, metadata, text, parts
) VALUES (
    (:thread << 24) + :position, :number, :unit, :owner, :app, :role_code, :origin_code,
    :created_at, :expires_at, :message_id, :run_id, :metadata, :text, :parts
)

-- name: draw_message_numbers
-- Answers with the last number of an unbroken run.
SELECT max(
    coalesce((SELECT max(number) FROM messages), 0),
    (SELECT value FROM counters WHERE name = 'messages')
) + :count

-- name: find_messages
-- Where messages are; ids is a JSON list. Without the hint SQLite would walk through all messages of the app.
SELECT messages.message_id, threads.thread_id, {position}, messages.number, messages.unit
FROM messages INDEXED BY messages_by_id {messages_with_threads}
WHERE messages.app = {app} AND messages.message_id IN (SELECT value FROM json_each(:ids)) AND {unexpired}

-- name: find_number
-- The one look-up over all users of a tenant.
SELECT user_id, app_id, project_id, thread_id, message_id
FROM messages INDEXED BY messages_by_number {messages_with_threads}
WHERE messages.number = :number AND threads.tenant_id = :tenant_id AND {unexpired}

-- name: messages_up_to
-- The last messages before a position, newest first.
SELECT {message_columns} FROM threads CROSS JOIN messages
    ON messages.place > threads.key << 24 AND messages.place < (threads.key << 24) + :before
WHERE {this_thread} AND {unexpired} ORDER BY messages.place DESC LIMIT coalesce(:limit, -1)

-- name: messages_from
-- The first messages after a position, oldest first.
SELECT {message_columns} FROM threads CROSS JOIN messages
    ON messages.place > (threads.key << 24) + :after AND messages.place < (threads.key + 1) << 24
WHERE {this_thread} AND {unexpired} ORDER BY messages.place LIMIT coalesce(:limit, -1)

-- name: messages_between
-- The messages from one position up to and without another.
SELECT {message_columns} FROM threads CROSS JOIN messages
    ON messages.place >= (threads.key << 24) + :low AND messages.place < (threads.key << 24) + :high
WHERE {this_thread} AND {unexpired} ORDER BY messages.place

-- name: messages_of_unit
-- What belongs to a unit after a position. Units have no gaps, so the first other one ends it; without
-- that bound the rest of the thread would be read.
SELECT {message_columns} FROM threads CROSS JOIN messages
    ON messages.place > (threads.key << 24) + :after AND messages.place < coalesce(
        (
            SELECT later.place FROM messages AS later
            WHERE later.place > (threads.key << 24) + :after AND later.place < (threads.key + 1) << 24
                AND later.unit <> :unit
            ORDER BY later.place LIMIT 1
        ),
        (threads.key + 1) << 24
    )
WHERE {this_thread} AND {unexpired} ORDER BY messages.place

-- name: page_of_messages
SELECT {message_columns} FROM threads CROSS JOIN messages ON {in_thread}
WHERE {this_thread} AND {unexpired}
ORDER BY messages.place LIMIT coalesce(:limit, -1) OFFSET :offset

-- name: user_history
-- What user and assistant said, over all threads, apps and projects of the user.
SELECT {message_columns} FROM messages INDEXED BY messages_by_owner {messages_with_threads}
WHERE messages.owner = {owner} AND {conversation} AND {unexpired}
ORDER BY messages.number DESC LIMIT coalesce(:limit, -1) OFFSET :offset

-- name: count_user_history
SELECT count(*) FROM messages INDEXED BY messages_by_owner
WHERE messages.owner = {owner} AND {conversation} AND {unexpired}

-- name: messages_by_number
-- numbers is a JSON list.
SELECT {message_columns} FROM messages INDEXED BY messages_by_number {messages_with_threads}
WHERE messages.number IN (SELECT value FROM json_each(:numbers)) AND messages.owner = {owner} AND {unexpired}
ORDER BY messages.number

-- name: messages_with_prefix
-- Messages whose ids lie between two texts, as those of one run do.
SELECT {message_columns} FROM messages INDEXED BY messages_by_id {messages_with_threads}
WHERE messages.app = {app} AND messages.message_id >= :low AND messages.message_id < :high AND {unexpired}
ORDER BY messages.number

-- name: join_unit
-- Ties everything after a tool call to it.
UPDATE messages SET unit = :unit
WHERE place > ({thread} << 24) + :unit AND place < ({thread} + 1) << 24

-- name: align_expiry
-- The messages of a unit at the end of a thread expire together, with the first of them. A message among them
-- that had expired before the unit was complete takes nothing along.
UPDATE messages SET expires_at = (
    SELECT min(others.expires_at) FROM messages AS others
    WHERE others.place >= ({thread} << 24) + :unit AND others.place < ({thread} + 1) << 24
        AND others.unit = :unit AND others.expires_at > :now
)
WHERE place >= ({thread} << 24) + :unit AND place < ({thread} + 1) << 24 AND unit = :unit AND {unexpired}

-- name: rich_messages
-- The messages from a position on that are more than text, newest first, to find a call of an earlier turn.
SELECT {position}, messages.unit, messages.parts FROM threads CROSS JOIN messages
    ON messages.place >= (threads.key << 24) + :low AND messages.place < (threads.key + 1) << 24
WHERE {this_thread} AND messages.parts IS NOT NULL AND {unexpired}
ORDER BY messages.place DESC

-- fragment: in_unit
-- Units have no gaps, so the first message of another one ends it.
messages.place >= ({thread} << 24) + :unit AND messages.place < coalesce(
    (
        SELECT later.place FROM messages AS later
        WHERE later.place > ({thread} << 24) + :unit AND later.place < ({thread} + 1) << 24
            AND later.unit <> :unit
        ORDER BY later.place LIMIT 1
    ),
    ({thread} + 1) << 24
)

-- name: rich_messages_of_unit
-- The messages of a unit that are more than text.
SELECT {position}, parts FROM messages WHERE {in_unit} AND parts IS NOT NULL AND {unexpired}

-- name: delete_positions
-- positions is a JSON list.
DELETE FROM messages
WHERE place IN (SELECT ({thread} << 24) + value FROM json_each(:positions))
RETURNING number, {message_bytes}

-- name: dissolve_unit
-- Makes each message that is left of a unit one of its own.
UPDATE messages SET unit = {position} WHERE {in_unit} AND {unexpired}

-- name: delete_thread_messages
DELETE FROM messages WHERE place > {thread} << 24 AND place < ({thread} + 1) << 24

-- name: message_chunks
-- The numbers of a user's messages, as JSON lists of a size, in order.
SELECT json_group_array(number) FROM (
    SELECT messages.number, (row_number() OVER (ORDER BY messages.number) - 1) / :size AS chunk
    FROM threads CROSS JOIN messages ON {in_thread} WHERE {this_user} AND {unexpired}
) GROUP BY chunk ORDER BY chunk

-- name: messages_of_chunk
-- numbers is a JSON list.
SELECT threads.app_id, threads.project_id, {message_columns}
FROM messages INDEXED BY messages_by_number {messages_with_threads}
WHERE messages.number IN (SELECT value FROM json_each(:numbers)) AND messages.owner = {owner}
ORDER BY messages.number

-- name: count_messages
SELECT count(*) FROM threads CROSS JOIN messages ON {in_thread} WHERE {this_user}

-- name: delete_messages
DELETE FROM messages WHERE place IN (
    SELECT messages.place FROM threads CROSS JOIN messages ON {in_thread} WHERE {this_user}
)

-- fragment: expired_messages
-- The messages of a user that have expired, those first that did so first.
(
    SELECT place FROM messages INDEXED BY messages_by_expiry
    WHERE owner = {owner} AND expires_at <= :now ORDER BY expires_at, place LIMIT coalesce(:limit, -1)
)

-- name: expired_threads
-- The threads that have expired messages, how many, and their bytes.
SELECT threads.app_id, threads.project_id, threads.thread_id, count(*), {content_bytes}
FROM messages {messages_with_threads} WHERE messages.place IN {expired_messages} GROUP BY threads.key

-- name: count_expired
SELECT count(*) FROM messages INDEXED BY messages_by_expiry WHERE owner = {owner} AND expires_at <= :now

-- name: delete_expired
DELETE FROM messages WHERE place IN {expired_messages} RETURNING number

-- name: old_threads
-- The threads that have old messages, and how many: those of units that were all written before a time.
SELECT app_id, project_id, thread_id, count(*) FROM (
    SELECT threads.app_id, threads.project_id, threads.thread_id,
        max(messages.created_at) OVER (PARTITION BY threads.key, messages.unit) AS newest
    FROM threads CROSS JOIN messages ON {in_thread}
    WHERE {this_user} AND {unexpired}
) WHERE newest < :before GROUP BY app_id, project_id, thread_id

-- name: next_unit
-- Where the first unit begins, from a position on.
SELECT {position} FROM threads CROSS JOIN messages
    ON messages.place >= (threads.key << 24) + :after AND messages.place < (threads.key + 1) << 24
WHERE {this_thread} AND messages.unit = {position} ORDER BY messages.place LIMIT 1

-- name: delete_old
-- Deletes the old messages of a thread from one position up to another; both begin a unit.
DELETE FROM messages WHERE place IN (
    SELECT place FROM (
        SELECT messages.place, max(messages.created_at) OVER (PARTITION BY messages.unit) AS newest
        FROM threads CROSS JOIN messages
            ON messages.place >= (threads.key << 24) + :low AND messages.place < (threads.key << 24) + :high
        WHERE {this_thread} AND {unexpired}
    ) WHERE newest < :before
)
RETURNING number, {message_bytes}
