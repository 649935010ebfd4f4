-- fragment: rows_of_messages
-- A message and one of its search rows.
search_rows.user_id = messages.user_id AND search_rows.tenant_id = messages.tenant_id
    AND search_rows.number = messages.number

-- fragment: the_user
messages.user_id = %(user_id)s AND messages.tenant_id = %(tenant_id)s

-- fragment: last_of_page
-- The number of the last message of a page, or nothing if the page reaches the end.
SELECT messages.number FROM recollect.messages
WHERE {the_user} AND {conversation} AND messages.number > %(after)s
ORDER BY messages.number LIMIT 1 OFFSET %(limit)s::bigint - 1

-- fragment: page_end
coalesce(({last_of_page}), 9223372036854775807)

-- name: end_of_page
{last_of_page}

-- name: search_rows_from
-- A page of rows. A message without a row of this analyser comes with its text instead.
SELECT messages.number, app_id, project_id, thread_id, position, created_at, expires_at, role = 'assistant', {speaker},
    search_rows.asks, search_rows.term_hashes, search_rows.term_counts,
    CASE WHEN search_rows.number IS NULL THEN text END
FROM recollect.messages LEFT JOIN recollect.search_rows
    ON {rows_of_messages} AND search_rows.segment = 0 AND search_rows.analyser = %(analyser)s
WHERE {the_user} AND {conversation} AND messages.number > %(after)s
    AND messages.number <= {page_end} AND {unexpired}
ORDER BY messages.number

-- fragment: expired
(SELECT messages.number FROM recollect.messages WHERE {this_user} AND messages.expires_at <= %(now)s)

-- name: vectors_from
-- The vectors of the messages from a number to the end of the page.
SELECT number, segment, model_id, vector FROM recollect.search_rows
WHERE {this_user} AND number >= %(vectors_from)s AND number <= {page_end} AND vector IS NOT NULL
    AND number NOT IN {expired}
ORDER BY number, segment

-- name: vectors_of
-- The vectors of some messages; numbers is a JSON list.
SELECT number, segment, model_id, vector FROM recollect.search_rows
WHERE {this_user} AND number IN {numbers} AND vector IS NOT NULL AND number NOT IN {expired}
ORDER BY number, segment

-- fragment: unindexed
-- Messages that lack their terms or, where a model is named, a vector of that or any model.
FROM recollect.messages LEFT JOIN recollect.search_rows
    ON {rows_of_messages} AND search_rows.segment = 0
WHERE {the_user} AND {conversation} AND messages.number > %(after)s AND {unexpired}
    AND (
        search_rows.number IS NULL OR search_rows.analyser <> %(analyser)s
        OR (
            %(model_id)s::text IS NOT NULL AND octet_length(search_rows.term_hashes) > 0
            AND (search_rows.vector IS NULL OR NOT (%(any_model)s OR search_rows.model_id = %(model_id)s))
        )
    )

-- name: unindexed_messages
-- Oldest first.
SELECT messages.number, messages.text {unindexed} ORDER BY messages.number LIMIT %(limit)s

-- name: count_unindexed
SELECT count(*) FROM (SELECT 1 {unindexed} LIMIT %(limit)s::bigint) AS found

-- name: newest_model
-- Which model made the user's newest vector, and its number of bytes.
SELECT model_id, octet_length(vector) FROM recollect.search_rows
WHERE {this_user} AND segment = 0 AND vector IS NOT NULL AND EXISTS (
    SELECT 1 FROM recollect.messages WHERE {this_user} AND messages.number = search_rows.number
        AND {unexpired_message}
)
ORDER BY number DESC LIMIT 1

-- name: present_numbers
-- Which of some messages are still there, and are searched; numbers is a JSON list.
SELECT number FROM recollect.messages
WHERE {this_user} AND number IN {numbers} AND {conversation} AND {unexpired}

-- name: numbers_with_metadata
-- The messages whose metadata have all the wanted values; metadata is a JSON object of scalars. Values are
-- compared as JSON text, which the store writes in one form: 1, 1.0, true and "1" differ.
SELECT number FROM recollect.messages
WHERE {this_user} AND {conversation} AND {unexpired} AND NOT EXISTS (
    SELECT 1 FROM json_each(%(metadata)s::json) AS wanted
    WHERE (messages.metadata -> wanted.key)::text IS DISTINCT FROM wanted.value::text
)
ORDER BY number

-- name: put_search_row
-- A row without a vector leaves the one that is there.
INSERT INTO recollect.search_rows AS present (
    user_id, tenant_id, number, segment, kind, analyser, asks, term_hashes, term_counts, model_id, vector
) VALUES (
    %(user_id)s, %(tenant_id)s, %(number)s, %(segment)s, %(kind)s, %(analyser)s, %(asks)s,
    %(term_hashes)s, %(term_counts)s, %(model_id)s, %(vector)s
)
ON CONFLICT (user_id, tenant_id, number, segment) DO UPDATE SET
    analyser = excluded.analyser, asks = excluded.asks,
    term_hashes = excluded.term_hashes, term_counts = excluded.term_counts,
    model_id = coalesce(excluded.model_id, present.model_id),
    vector = coalesce(excluded.vector, present.vector)

-- name: delete_search_rows_of
-- numbers is a JSON list, of messages that are deleted already or are indexed again.
DELETE FROM recollect.search_rows WHERE {this_user} AND number IN {numbers}

-- name: delete_thread_search_rows
-- Runs before the thread's messages are deleted.
DELETE FROM recollect.search_rows
WHERE {this_user} AND number IN (SELECT number FROM recollect.messages WHERE {this_thread})

-- name: count_search_rows
SELECT count(*) FROM recollect.search_rows WHERE {this_user}

-- name: delete_search_rows
DELETE FROM recollect.search_rows WHERE {this_user}
