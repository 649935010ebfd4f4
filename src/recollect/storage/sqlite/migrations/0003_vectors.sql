-- What the embedder made of messages: one row for each, written some time after the message.
-- stamp grows with every write to a user's rows, so that caches read only what is new.
-- spans are the pieces of a long text, a pair of little-endian 32-bit numbers each; vectors holds one
-- vector of half-precision floats for each piece. Rows lie in the order of commits.
CREATE TABLE vectors (
    stamp INTEGER PRIMARY KEY,
    user_id TEXT NOT NULL,
    tenant_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    model_id TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    spans BLOB NOT NULL,
    vectors BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX vectors_by_message ON vectors (user_id, tenant_id, number);

CREATE INDEX vectors_by_user ON vectors (user_id, tenant_id, stamp);
