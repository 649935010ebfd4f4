-- fragment: lock
-- Makes sure of the row and locks it: the writes of one user happen one after the other, so that
-- numbers grow in the order of commits. The condition keeps the lock from writing a new row version.
INSERT INTO recollect.users AS present (user_id, tenant_id, epoch, erase_epoch)
VALUES (%(user_id)s, %(tenant_id)s, nextval('recollect.numbers'), nextval('recollect.numbers'))
ON CONFLICT (user_id, tenant_id) DO UPDATE SET epoch = present.epoch WHERE false

-- name: lock_user
{lock}

-- name: lock_known_user
{lock}

-- name: draw_numbers
-- Answers with each number.
SELECT nextval('recollect.numbers') FROM generate_series(1, %(count)s)

-- name: find_epochs
-- Answers with no row for a user of whom nothing is stored.
SELECT epoch, erase_epoch FROM recollect.users WHERE {this_user}

-- name: last_number
-- The epoch of a user of whom nothing is stored: no earlier one of the same user was higher.
SELECT last_value FROM recollect.numbers

-- name: set_epoch
UPDATE recollect.users SET epoch = %(epoch)s WHERE {this_user}

-- fragment: same_user
other.user_id = present.user_id AND other.tenant_id = %(tenant_id)s

-- name: list_users
-- The users of one tenant, a page at a time, with what is stored of each.
SELECT present.user_id, count(threads.thread_id), coalesce(sum({message_count}), 0)::bigint,
    coalesce(sum({thread_bytes}), 0)::bigint, greatest(
        max(threads.updated_at),
        (SELECT max(updated_at) FROM recollect.user_memory AS other WHERE {same_user}),
        (SELECT max(updated_at) FROM recollect.user_state AS other WHERE {same_user}),
        (SELECT max(updated_at) FROM recollect.working_memory AS other WHERE {same_user}),
        (SELECT max(created_at) FROM recollect.events AS other WHERE {same_user})
    )
FROM (
    SELECT user_id FROM recollect.users
    WHERE tenant_id = %(tenant_id)s AND user_id > %(after)s ORDER BY user_id LIMIT %(limit)s
) AS present
LEFT JOIN recollect.threads ON threads.user_id = present.user_id AND threads.tenant_id = %(tenant_id)s
GROUP BY present.user_id ORDER BY present.user_id

-- name: count_users
SELECT count(*) FROM recollect.users WHERE {this_user}

-- name: delete_users
DELETE FROM recollect.users WHERE {this_user}

-- name: mark_unpurged
-- Nothing to do: the server vacuums its tables.

-- name: find_unpurged
-- Nothing to do.

-- name: clear_unpurged
-- Nothing to do.

-- name: ping
-- Reads from the database.
SELECT 1
