-- name: lock_user
-- The write transaction is the lock; here the row only has to exist.
INSERT INTO users (user_id, tenant_id, epoch)
VALUES (:user_id, :tenant_id, (SELECT value FROM counters WHERE name = 'numbers'))
ON CONFLICT DO NOTHING

-- name: draw_numbers
-- Answers with the last number of an unbroken run.
UPDATE counters SET value = value + :count WHERE name = 'numbers' RETURNING value

-- name: get_epoch
-- A user of whom nothing is kept has an epoch that no earlier one of the same user had.
SELECT coalesce(
    (SELECT epoch FROM users WHERE {this_user}),
    (SELECT value FROM counters WHERE name = 'numbers')
)

-- name: find_epoch
-- Answers with no row for a user of whom nothing is kept.
SELECT epoch FROM users WHERE {this_user}

-- name: set_epoch
UPDATE users SET epoch = :epoch WHERE {this_user}

-- name: list_users
-- The users of one tenant, a page at a time.
SELECT user_id FROM users
WHERE tenant_id = :tenant_id AND user_id > :after ORDER BY user_id LIMIT :limit

-- name: count_users
SELECT count(*) FROM users WHERE {this_user}

-- name: delete_users
DELETE FROM users WHERE {this_user}
