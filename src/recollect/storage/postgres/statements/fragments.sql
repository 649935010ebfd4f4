-- fragment: this_user
user_id = %(user_id)s AND tenant_id = %(tenant_id)s

-- fragment: this_app
{this_user} AND app_id = %(app_id)s AND project_id = %(project_id)s

-- fragment: this_thread
{this_app} AND thread_id = %(thread_id)s

-- fragment: unexpired
(expires_at IS NULL OR expires_at > %(now)s)

-- fragment: conversation
role IN ('user', 'assistant') AND text <> ''

-- fragment: in_thread
-- The messages of a row of threads.
messages.user_id = threads.user_id AND messages.tenant_id = threads.tenant_id
    AND messages.app_id = threads.app_id AND messages.project_id = threads.project_id
    AND messages.thread_id = threads.thread_id

-- fragment: last_message_at
-- Expired messages that no write has removed yet do not count, here and in the next one.
CASE WHEN threads.expires_at <= %(now)s THEN (
    SELECT messages.created_at FROM recollect.messages WHERE {in_thread} AND {unexpired_message}
    ORDER BY messages.position DESC LIMIT 1
) ELSE last_message_at END

-- fragment: message_count
CASE WHEN threads.expires_at <= %(now)s
    THEN (SELECT count(*) FROM recollect.messages WHERE {in_thread} AND {unexpired_message})
    ELSE message_count END

-- fragment: unexpired_message
(messages.expires_at IS NULL OR messages.expires_at > %(now)s)

-- fragment: message_bytes
-- The bytes of a message, as `encode_message` counts them.
(octet_length(messages.text) + coalesce(octet_length(messages.parts::text), 0)
    + coalesce(octet_length(messages.metadata::text), 0))

-- fragment: content_bytes
coalesce(sum({message_bytes}), 0)::bigint

-- fragment: thread_bytes
CASE WHEN threads.expires_at <= %(now)s
    THEN (SELECT {content_bytes} FROM recollect.messages WHERE {in_thread} AND {unexpired_message})
    ELSE threads.bytes END

-- fragment: thread_columns
thread_id, app_id, project_id, title, metadata::text, created_at, updated_at,
{last_message_at}, {message_count}, next_position

-- fragment: message_columns
-- Role and origin come as their codes, which are shorter; the table has their names, which people can read.
message_id,
CASE role WHEN 'user' THEN 0 WHEN 'assistant' THEN 1 WHEN 'tool' THEN 2 WHEN 'system' THEN 3 END,
CASE origin WHEN 'input' THEN 0 WHEN 'response' THEN 1 WHEN 'memory' THEN 2 WHEN 'system' THEN 3 END,
text, parts::text, metadata::text, created_at, thread_id, position, number, run_id, unit,
expires_at

-- fragment: speaker
CASE WHEN json_typeof(metadata -> 'name') = 'string' THEN metadata ->> 'name' END

-- fragment: numbers
-- A JSON list of numbers, as rows. The function's column is `value`: any other name could be one of the outer
-- query, which would then compare with itself.
(SELECT value::bigint FROM json_array_elements_text(%(numbers)s::json))
