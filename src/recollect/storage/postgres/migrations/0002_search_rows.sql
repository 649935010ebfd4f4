-- What search knows of a message, in a table of its own: history never reads it, and search reads
-- all of one user's rows in one stretch.
CREATE TABLE recollect.search_rows (
    user_id text COLLATE "C" NOT NULL,
    tenant_id bigint NOT NULL,
    number bigint NOT NULL,
    term_hashes bytea NOT NULL,
    term_counts bytea NOT NULL,
    PRIMARY KEY (user_id, tenant_id, number)
);

ALTER TABLE recollect.search_rows ENABLE ROW LEVEL SECURITY;
ALTER TABLE recollect.search_rows FORCE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON recollect.search_rows
    USING (tenant_id = nullif(current_setting('recollect.tenant_id', true), '')::bigint);
