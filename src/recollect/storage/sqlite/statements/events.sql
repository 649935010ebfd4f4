-- fragment: event_columns
number, thread_id, name, run_id, payload, context_visible, created_at

-- fragment: wanted_events
(:name IS NULL OR name = :name) AND (:run_id IS NULL OR run_id = :run_id)

-- name: add_event
INSERT INTO events (
    user_id, tenant_id, number, app_id, project_id, thread_id, name, run_id, payload, created_at
) VALUES (
    :user_id, :tenant_id, :number, :app_id, :project_id, :thread_id, :name, :run_id, :payload, :created_at
)

-- name: events_of_app
-- The newest events of all sessions of an app and project, newest first.
SELECT {event_columns} FROM events WHERE {this_app} AND {wanted_events}
ORDER BY number DESC LIMIT coalesce(:limit, -1) OFFSET :offset

-- name: events_of_thread
-- The newest events of one session, newest first.
SELECT {event_columns} FROM events WHERE {this_thread} AND {wanted_events}
ORDER BY number DESC LIMIT coalesce(:limit, -1) OFFSET :offset

-- name: all_events
SELECT app_id, project_id, {event_columns} FROM events WHERE {this_user} ORDER BY number

-- name: delete_thread_events
DELETE FROM events WHERE {this_thread} RETURNING number

-- name: count_events
SELECT count(*) FROM events WHERE {this_user}

-- name: delete_events
DELETE FROM events WHERE {this_user}
