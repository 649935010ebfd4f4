-- name: lock_user
-- Makes sure of the row and locks it: the writes of one user happen one after the other, so that
-- numbers grow in the order of commits. The condition keeps the lock from writing a new row version.
INSERT INTO recollect.users AS present (user_id, tenant_id, epoch)
VALUES (%(user_id)s, %(tenant_id)s, nextval('recollect.numbers'))
ON CONFLICT (user_id, tenant_id) DO UPDATE SET epoch = present.epoch WHERE false

-- name: draw_numbers
-- Answers with each number.
SELECT nextval('recollect.numbers') FROM generate_series(1, %(count)s)

-- name: get_epoch
-- A user of whom nothing is kept has an epoch that no earlier one of the same user had.
SELECT coalesce(
    (SELECT epoch FROM recollect.users WHERE {this_user}),
    (SELECT last_value FROM recollect.numbers)
)

-- name: find_epoch
-- Answers with no row for a user of whom nothing is kept.
SELECT epoch FROM recollect.users WHERE {this_user}

-- name: set_epoch
UPDATE recollect.users SET epoch = %(epoch)s WHERE {this_user}

-- name: list_users
-- The users of one tenant, a page at a time.
SELECT user_id FROM recollect.users
WHERE tenant_id = %(tenant_id)s AND user_id > %(after)s ORDER BY user_id LIMIT %(limit)s

-- name: count_users
SELECT count(*) FROM recollect.users WHERE {this_user}

-- name: delete_users
DELETE FROM recollect.users WHERE {this_user}
