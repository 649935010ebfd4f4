-- name: set_memory
INSERT INTO user_memory (user_id, tenant_id, key, number, value, updated_at)
VALUES (:user_id, :tenant_id, :key, :number, :value, :updated_at)
ON CONFLICT (user_id, tenant_id, key) DO UPDATE SET
    value = excluded.value, updated_at = excluded.updated_at
RETURNING number

-- name: get_memory
SELECT key, number, value, updated_at FROM user_memory
WHERE {this_user} AND key = :key

-- name: list_memory
SELECT key, number, value, updated_at FROM user_memory
WHERE {this_user} ORDER BY key

-- name: delete_memory
DELETE FROM user_memory WHERE {this_user} AND key = :key
RETURNING number

-- name: count_user_memory
SELECT count(*) FROM user_memory WHERE {this_user}

-- name: delete_user_memory
DELETE FROM user_memory WHERE {this_user} RETURNING number
