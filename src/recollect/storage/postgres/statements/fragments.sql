-- fragment: this_user
user_id = %(user_id)s AND tenant_id = %(tenant_id)s

-- fragment: this_app
{this_user} AND app_id = %(app_id)s AND project_id = %(project_id)s

-- fragment: this_thread
{this_app} AND thread_id = %(thread_id)s

-- fragment: thread_columns
thread_id, user_id, tenant_id, app_id, project_id, title, metadata::text,
created_at, updated_at, last_message_at, message_count, next_position

-- fragment: message_columns
message_id, role, origin, text, parts::text, metadata::text, created_at, thread_id, position, number, run_id, unit

-- fragment: speaker
CASE WHEN json_typeof(metadata -> 'name') = 'string' THEN metadata ->> 'name' END

-- fragment: asks
-- Whether a message holds a question mark, also that of Chinese and Japanese or of Arabic.
(strpos(text, '?') > 0 OR strpos(text, '？') > 0 OR strpos(text, '؟') > 0)
