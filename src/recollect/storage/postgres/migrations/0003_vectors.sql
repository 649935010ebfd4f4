-- What the embedder made of messages: one row for each, written some time after the message.
-- stamp grows with every write to a user's rows, so that caches read only what is new.
-- spans are the pieces of a long text, a pair of little-endian 32-bit numbers each; vectors holds one
-- vector of half-precision floats for each piece.
CREATE TABLE recollect.vectors (
    stamp bigint NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    tenant_id bigint NOT NULL,
    number bigint NOT NULL,
    model_id text COLLATE "C" NOT NULL,
    dimensions bigint NOT NULL,
    spans bytea NOT NULL,
    vectors bytea NOT NULL,
    PRIMARY KEY (user_id, tenant_id, number)
);

CREATE INDEX vectors_by_user ON recollect.vectors (user_id, tenant_id, stamp);

-- Half-precision floats do not compress; trying to would only cost time.
ALTER TABLE recollect.vectors ALTER COLUMN vectors SET STORAGE EXTERNAL;

ALTER TABLE recollect.vectors ENABLE ROW LEVEL SECURITY;
ALTER TABLE recollect.vectors FORCE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON recollect.vectors
    USING (tenant_id = nullif(current_setting('recollect.tenant_id', true), '')::bigint);
