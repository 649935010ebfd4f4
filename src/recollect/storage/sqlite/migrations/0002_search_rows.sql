-- What search knows of a source: one row for each segment of its text, written some time after the source.
-- place is the source's number, shifted by 8 bits, plus the segment. So rows lie in the order of commits, in
-- full pages, and are found by the number.
-- kind: 0 a message. The first row has the terms of the whole text, and whether it asks something.
-- Rows of another analyser than the current one count as missing. vector holds half-precision floats; it is
-- NULL until an embedder has made it.
CREATE TABLE search_rows (
    place INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,
    analyser INTEGER NOT NULL,
    asks INTEGER NOT NULL,
    term_hashes BLOB NOT NULL,
    term_counts BLOB NOT NULL,
    model_id TEXT,
    vector BLOB
) STRICT;
