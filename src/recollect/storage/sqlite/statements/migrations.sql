-- name: create_migrations
CREATE TABLE IF NOT EXISTS recollect_migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT

-- name: applied_migrations
SELECT number, name FROM recollect_migrations ORDER BY number

-- name: record_migration
INSERT INTO recollect_migrations (number, name, applied_at) VALUES (:number, :name, :applied_at)
