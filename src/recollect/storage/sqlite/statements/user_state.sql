-- name: set_state
INSERT INTO user_state (user_id, tenant_id, mode, updated_at)
VALUES (:user_id, :tenant_id, :mode, :updated_at)
ON CONFLICT (user_id, tenant_id) DO UPDATE SET
    mode = excluded.mode, updated_at = excluded.updated_at

-- name: get_state
SELECT mode, updated_at FROM user_state WHERE {this_user}

-- name: count_user_state
SELECT count(*) FROM user_state WHERE {this_user}

-- name: delete_user_state
DELETE FROM user_state WHERE {this_user} RETURNING mode
