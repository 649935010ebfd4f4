-- What search knows of a source: one row for each segment of its text, written some time after the source.
-- number is the source's; kind: 0 a message. The first row has the terms of the whole text, and whether it
-- asks something. Rows of another analyser than the current one count as missing. vector holds half-precision
-- floats, which do not compress; it is NULL until an embedder has made it.
CREATE TABLE recollect.search_rows (
    user_id text COLLATE "C" NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    segment smallint NOT NULL,
    kind smallint NOT NULL,
    analyser smallint NOT NULL,
    asks boolean NOT NULL,
    term_hashes bytea NOT NULL,
    term_counts bytea NOT NULL,
    model_id text COLLATE "C",
    vector bytea,
    PRIMARY KEY (user_id, tenant_id, number, segment)
);

ALTER TABLE recollect.search_rows ALTER COLUMN vector SET STORAGE EXTERNAL;

ALTER TABLE recollect.search_rows ENABLE ROW LEVEL SECURITY;
ALTER TABLE recollect.search_rows FORCE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON recollect.search_rows
    USING (tenant_id = current_setting('recollect.tenant_id', true));
