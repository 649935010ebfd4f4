-- Working memory: the fields that an agent stores about a user, or in one thread, in versions.
-- What belongs to the user and not to a thread has the empty app, project and thread, which no real one has.
CREATE TABLE recollect.working_memory (
    user_id text COLLATE "C" NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    app_id text COLLATE "C" NOT NULL,
    project_id text COLLATE "C" NOT NULL,
    thread_id text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    value json NOT NULL,
    run_id text COLLATE "C",
    updated_at bigint NOT NULL,
    PRIMARY KEY (user_id, tenant_id, app_id, project_id, thread_id, version)
);

ALTER TABLE recollect.working_memory ENABLE ROW LEVEL SECURITY;
ALTER TABLE recollect.working_memory FORCE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON recollect.working_memory
    USING (tenant_id = current_setting('recollect.tenant_id', true));
