-- name: lock_user
-- The write transaction is the lock; here the row only has to exist. ON CONFLICT DO NOTHING would draw a key
-- each time, and write it.
INSERT INTO users (user_id, tenant_id, epoch)
SELECT :user_id, :tenant_id, value FROM counters
WHERE name = 'numbers' AND NOT EXISTS (SELECT 1 FROM users WHERE {this_user})

-- name: lock_known_user
-- Nothing to do: a thread that exists has a user that exists.

-- name: draw_numbers
-- Answers with the last number of an unbroken run.
UPDATE counters SET value = value + :count WHERE name = 'numbers' RETURNING value

-- name: find_epochs
-- Answers with no row for a user of whom nothing is stored.
SELECT epoch, key FROM users WHERE {this_user}

-- name: last_number
-- The epoch of a user of whom nothing is stored: no earlier one of the same user was higher.
SELECT value FROM counters WHERE name = 'numbers'

-- name: set_epoch
UPDATE users SET epoch = :epoch WHERE {this_user}

-- fragment: same_user
other.user_id = users.user_id AND other.tenant_id = :tenant_id

-- name: list_users
-- The users of one tenant, a page at a time, with what is stored of each.
SELECT users.user_id, count(threads.key), coalesce(sum({message_count}), 0),
    coalesce(sum({thread_bytes}), 0), nullif(max(
        coalesce(max(threads.updated_at), 0),
        coalesce((SELECT max(updated_at) FROM user_memory AS other WHERE {same_user}), 0),
        coalesce((SELECT max(updated_at) FROM user_state AS other WHERE {same_user}), 0),
        coalesce((SELECT max(updated_at) FROM working_memory AS other WHERE {same_user}), 0),
        coalesce((SELECT max(created_at) FROM events AS other WHERE {same_user}), 0)
    ), 0)
FROM (
    SELECT key, user_id FROM users
    WHERE tenant_id = :tenant_id AND user_id > :after ORDER BY user_id LIMIT :limit
) AS users
LEFT JOIN threads ON threads.user_id = users.user_id AND threads.tenant_id = :tenant_id
GROUP BY users.user_id ORDER BY users.user_id

-- name: count_users
SELECT count(*) FROM users WHERE {this_user}

-- name: delete_users
DELETE FROM users WHERE {this_user}

-- name: mark_unpurged
-- Remembers that traces of an erased user must be removed from the file, until that was done.
INSERT INTO counters (name, value) VALUES ('unpurged', 1)
ON CONFLICT (name) DO UPDATE SET value = value + 1

-- name: find_unpurged
SELECT value FROM counters WHERE name = 'unpurged'

-- name: clear_unpurged
-- Not if another user was erased meanwhile.
DELETE FROM counters WHERE name = 'unpurged' AND value = :value

-- name: ping
-- Reads from the database.
SELECT 1 FROM counters LIMIT 1
