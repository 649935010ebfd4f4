-- fragment: event_columns
number, thread_id, name, run_id, payload::text, context_visible, created_at

-- fragment: wanted_events
(%(name)s::text IS NULL OR name = %(name)s) AND (%(run_id)s::text IS NULL OR run_id = %(run_id)s)

-- name: add_event
INSERT INTO recollect.events (
    user_id, tenant_id, number, app_id, project_id, thread_id, name, run_id, payload, created_at
) VALUES (
    %(user_id)s, %(tenant_id)s, %(number)s, %(app_id)s, %(project_id)s, %(thread_id)s, %(name)s, %(run_id)s,
    %(payload)s::json, %(created_at)s
)

-- name: events_of_app
-- The newest events of all sessions of an app and project, newest first.
SELECT {event_columns} FROM recollect.events WHERE {this_app} AND {wanted_events}
ORDER BY number DESC LIMIT %(limit)s::bigint OFFSET %(offset)s

-- name: events_of_thread
-- The newest events of one session, newest first.
SELECT {event_columns} FROM recollect.events WHERE {this_thread} AND {wanted_events}
ORDER BY number DESC LIMIT %(limit)s::bigint OFFSET %(offset)s

-- name: all_events
SELECT app_id, project_id, {event_columns} FROM recollect.events WHERE {this_user} ORDER BY number

-- name: delete_thread_events
DELETE FROM recollect.events WHERE {this_thread} RETURNING number

-- name: count_events
SELECT count(*) FROM recollect.events WHERE {this_user}

-- name: delete_events
DELETE FROM recollect.events WHERE {this_user}
