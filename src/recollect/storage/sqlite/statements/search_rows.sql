-- name: insert_search_row
INSERT INTO search_rows (user_id, tenant_id, number, term_hashes, term_counts)
VALUES (:user_id, :tenant_id, :number, :term_hashes, :term_counts)

-- name: search_rows_from
SELECT number, term_hashes, term_counts FROM search_rows
WHERE {this_user} AND number > :after
ORDER BY number LIMIT coalesce(:limit, -1)

-- name: delete_search_row
DELETE FROM search_rows WHERE {this_user} AND number = :number

-- name: count_search_rows
SELECT count(*) FROM search_rows WHERE {this_user}

-- name: delete_search_rows
DELETE FROM search_rows WHERE {this_user}
