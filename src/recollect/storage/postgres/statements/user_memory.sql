-- name: set_memory
INSERT INTO recollect.user_memory (user_id, tenant_id, key, number, value, updated_at)
VALUES (%(user_id)s, %(tenant_id)s, %(key)s, %(number)s, %(value)s::json, %(updated_at)s)
ON CONFLICT (user_id, tenant_id, key) DO UPDATE SET
    value = excluded.value, updated_at = excluded.updated_at
RETURNING number

-- name: get_memory
SELECT key, number, value::text, updated_at FROM recollect.user_memory
WHERE {this_user} AND key = %(key)s

-- name: list_memory
SELECT key, number, value::text, updated_at FROM recollect.user_memory
WHERE {this_user} ORDER BY key

-- name: delete_memory
DELETE FROM recollect.user_memory WHERE {this_user} AND key = %(key)s
RETURNING number

-- name: count_user_memory
SELECT count(*) FROM recollect.user_memory WHERE {this_user}

-- name: delete_user_memory
DELETE FROM recollect.user_memory WHERE {this_user} RETURNING number
