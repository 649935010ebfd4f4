-- Values that are stored about a user by key, and the mode that the user is in.
CREATE TABLE recollect.user_memory (
    user_id text COLLATE "C" NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    value json NOT NULL,
    updated_at bigint NOT NULL,
    PRIMARY KEY (user_id, tenant_id, key)
);

CREATE TABLE recollect.user_state (
    user_id text COLLATE "C" NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    mode text NOT NULL,
    updated_at bigint NOT NULL,
    PRIMARY KEY (user_id, tenant_id)
);

ALTER TABLE recollect.user_memory ENABLE ROW LEVEL SECURITY;
ALTER TABLE recollect.user_memory FORCE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON recollect.user_memory
    USING (tenant_id = current_setting('recollect.tenant_id', true));

ALTER TABLE recollect.user_state ENABLE ROW LEVEL SECURITY;
ALTER TABLE recollect.user_state FORCE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON recollect.user_state
    USING (tenant_id = current_setting('recollect.tenant_id', true));
