-- name: working_memory_versions
-- The newest versions first; a limit of one gives the present one.
SELECT version, value::text, run_id, updated_at FROM recollect.working_memory WHERE {this_thread}
ORDER BY version DESC LIMIT %(limit)s

-- name: working_memory_version
SELECT version, value::text, run_id, updated_at FROM recollect.working_memory
WHERE {this_thread} AND version = %(version)s

-- name: add_working_memory
INSERT INTO recollect.working_memory (
    user_id, tenant_id, app_id, project_id, thread_id, version, value, run_id, updated_at
) VALUES (
    %(user_id)s, %(tenant_id)s, %(app_id)s, %(project_id)s, %(thread_id)s,
    %(version)s, %(value)s::json, %(run_id)s, %(updated_at)s
)

-- name: trim_working_memory
-- Drops versions that are too old to be restored.
DELETE FROM recollect.working_memory WHERE {this_thread} AND version <= %(oldest)s

-- name: clear_working_memory
DELETE FROM recollect.working_memory WHERE {this_thread} RETURNING version

-- name: all_working_memory
SELECT app_id, project_id, thread_id, version, value::text, run_id, updated_at FROM recollect.working_memory
WHERE {this_user} ORDER BY app_id, project_id, thread_id, version

-- name: count_thread_working_memory
-- Counts what belongs to threads and not to the user.
SELECT count(*) FROM recollect.working_memory WHERE {this_user} AND thread_id <> ''

-- name: delete_thread_working_memory
DELETE FROM recollect.working_memory WHERE {this_user} AND thread_id <> ''

-- name: count_working_memory
SELECT count(*) FROM recollect.working_memory WHERE {this_user}

-- name: delete_working_memory
DELETE FROM recollect.working_memory WHERE {this_user} RETURNING version
