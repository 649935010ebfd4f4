-- Audit events of a session: what was done for a run, for people to look into. They are never part of the
-- conversation; context_visible says so to whoever reads the table, and the check keeps it true.
-- An event may be older than its session's first message, so its thread need not exist.
CREATE TABLE events (
    user_id TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    app_id TEXT NOT NULL,
    project_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    name TEXT NOT NULL,
    run_id TEXT,
    payload TEXT NOT NULL,
    context_visible INTEGER NOT NULL DEFAULT 0 CHECK (context_visible = 0),
    created_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, tenant_id, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX events_by_thread ON events (user_id, tenant_id, app_id, project_id, thread_id, number);
