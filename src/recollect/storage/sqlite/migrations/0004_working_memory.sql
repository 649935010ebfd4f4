-- Working memory: the fields that an agent stores about a user, or in one thread, in versions.
-- What belongs to the user and not to a thread has the empty app, project and thread, which no real one has.
CREATE TABLE working_memory (
    user_id TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    app_id TEXT NOT NULL,
    project_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    value TEXT NOT NULL,
    run_id TEXT,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, tenant_id, app_id, project_id, thread_id, version)
) STRICT, WITHOUT ROWID;
