-- name: insert_search_row
INSERT INTO recollect.search_rows (user_id, tenant_id, number, term_hashes, term_counts)
VALUES (%(user_id)s, %(tenant_id)s, %(number)s, %(term_hashes)s, %(term_counts)s)

-- name: search_rows_from
SELECT number, term_hashes, term_counts FROM recollect.search_rows
WHERE {this_user} AND number > %(after)s
ORDER BY number LIMIT %(limit)s::bigint

-- name: delete_search_row
DELETE FROM recollect.search_rows WHERE {this_user} AND number = %(number)s

-- name: count_search_rows
SELECT count(*) FROM recollect.search_rows WHERE {this_user}

-- name: delete_search_rows
DELETE FROM recollect.search_rows WHERE {this_user}
