-- Audit events of a session: what was done for a run, for people to look into. They are never part of the
-- conversation; context_visible says so to whoever reads the table, and the check keeps it true.
-- An event may be older than its session's first message, so its thread need not exist.
CREATE TABLE recollect.events (
    user_id text COLLATE "C" NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    app_id text COLLATE "C" NOT NULL,
    project_id text COLLATE "C" NOT NULL,
    thread_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    run_id text COLLATE "C",
    payload json NOT NULL,
    context_visible boolean NOT NULL DEFAULT false CHECK (NOT context_visible),
    created_at bigint NOT NULL,
    PRIMARY KEY (user_id, tenant_id, number)
);

CREATE INDEX events_by_thread
    ON recollect.events (user_id, tenant_id, app_id, project_id, thread_id, number);

ALTER TABLE recollect.events ENABLE ROW LEVEL SECURITY;
ALTER TABLE recollect.events FORCE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON recollect.events
    USING (tenant_id = current_setting('recollect.tenant_id', true));
