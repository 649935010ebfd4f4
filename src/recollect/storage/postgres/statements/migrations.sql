-- name: create_migrations
CREATE TABLE IF NOT EXISTS recollect.migrations (
    number bigint PRIMARY KEY,
    name text NOT NULL,
    applied_at bigint NOT NULL
)

-- name: applied_migrations
SELECT number, name FROM recollect.migrations ORDER BY number

-- name: record_migration
INSERT INTO recollect.migrations (number, name, applied_at)
VALUES (%(number)s, %(name)s, %(applied_at)s)
