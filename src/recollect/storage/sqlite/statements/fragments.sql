-- fragment: this_user
user_id = :user_id AND tenant_id = :tenant_id

-- fragment: this_app
{this_user} AND app_id = :app_id AND project_id = :project_id

-- fragment: this_thread
{this_app} AND thread_id = :thread_id

-- fragment: thread_columns
thread_id, user_id, tenant_id, app_id, project_id, title, metadata,
created_at, updated_at, last_message_at, message_count, next_position

-- fragment: message_columns
message_id, role, origin, text, parts, metadata, created_at, thread_id, position, number, run_id, unit

-- fragment: speaker
CASE WHEN metadata IS NOT NULL AND json_type(metadata, '$.name') = 'text'
    THEN json_extract(metadata, '$.name') END

-- fragment: asks
-- Whether a message holds a question mark, also that of Chinese and Japanese or of Arabic.
(instr(text, '?') > 0 OR instr(text, '？') > 0 OR instr(text, '؟') > 0)
