-- fragment: this_user
user_id = :user_id AND tenant_id = :tenant_id

-- fragment: this_app
{this_user} AND app_id = :app_id AND project_id = :project_id

-- fragment: this_thread
{this_app} AND thread_id = :thread_id

-- fragment: owner
(SELECT key FROM users WHERE {this_user})

-- fragment: app
(SELECT key FROM apps WHERE owner = {owner} AND app_id = :app_id AND project_id = :project_id)

-- fragment: thread
(SELECT key FROM threads WHERE {this_thread})

-- fragment: in_thread
-- Where the messages of a row of threads lie.
messages.place > threads.key << 24 AND messages.place < (threads.key + 1) << 24

-- fragment: position
(messages.place & 16777215)

-- fragment: unexpired
(messages.expires_at IS NULL OR messages.expires_at > :now)

-- fragment: conversation
messages.role < 2 AND messages.text <> ''

-- fragment: last_message_at
-- Expired messages that no write has removed yet do not count, here and in the next one.
CASE WHEN threads.expires_at <= :now THEN (
    SELECT messages.created_at FROM messages WHERE {in_thread} AND {unexpired}
    ORDER BY messages.place DESC LIMIT 1
) ELSE last_message_at END

-- fragment: message_count
CASE WHEN threads.expires_at <= :now
    THEN (SELECT count(*) FROM messages WHERE {in_thread} AND {unexpired}) ELSE message_count END

-- fragment: message_bytes
-- The bytes of a message, as `encode_message` counts them.
(octet_length(messages.text) + coalesce(octet_length(messages.parts), 0)
    + coalesce(octet_length(messages.metadata), 0))

-- fragment: content_bytes
coalesce(sum({message_bytes}), 0)

-- fragment: thread_bytes
CASE WHEN threads.expires_at <= :now
    THEN (SELECT {content_bytes} FROM messages WHERE {in_thread} AND {unexpired}) ELSE threads.bytes END

-- fragment: thread_columns
thread_id, app_id, project_id, title, metadata, created_at, updated_at, {last_message_at}, {message_count},
next_position

-- fragment: message_columns
messages.message_id, messages.role, messages.origin, messages.text, messages.parts, messages.metadata, messages.created_at, threads.thread_id,
{position}, messages.number, messages.run_id, messages.unit, messages.expires_at

-- fragment: messages_with_threads
-- Messages by one of their indexes; each then finds its thread.
CROSS JOIN threads ON threads.key = messages.place >> 24

-- fragment: speaker
CASE WHEN messages.metadata IS NOT NULL AND json_valid(messages.metadata)
    AND json_type(messages.metadata, '$.name') = 'text'
    THEN json_extract(messages.metadata, '$.name') END

-- fragment: segments
-- The search rows of a row of messages.
search_rows.place >= messages.number << 8 AND search_rows.place < (messages.number + 1) << 8
