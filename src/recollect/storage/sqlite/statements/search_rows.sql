-- fragment: last_of_page
-- The number of the last message of a page, or nothing if the page reaches the end.
SELECT messages.number FROM messages INDEXED BY messages_by_owner
WHERE messages.owner = {owner} AND {conversation} AND messages.number > :after
ORDER BY messages.number LIMIT 1 OFFSET :limit - 1

-- fragment: page_end
coalesce(({last_of_page}), 9223372036854775807)

-- name: end_of_page
{last_of_page}

-- name: search_rows_from
-- A page of rows. A message without a row of this analyser comes with its text instead.
SELECT messages.number, threads.app_id, threads.project_id, threads.thread_id, {position},
    messages.created_at, messages.expires_at, messages.role = 1, {speaker},
    search_rows.asks, search_rows.term_hashes, search_rows.term_counts,
    CASE WHEN search_rows.place IS NULL THEN messages.text END
FROM messages INDEXED BY messages_by_owner {messages_with_threads}
LEFT JOIN search_rows
    ON search_rows.place = messages.number << 8 AND search_rows.analyser = :analyser
WHERE messages.owner = {owner} AND {conversation} AND messages.number > :after
    AND messages.number <= {page_end} AND {unexpired}
ORDER BY messages.number

-- name: vectors_from
-- The vectors of the messages from a number to the end of the page.
SELECT messages.number, search_rows.place & 255, search_rows.model_id, search_rows.vector
FROM messages INDEXED BY messages_by_owner CROSS JOIN search_rows ON {segments}
WHERE messages.owner = {owner} AND {conversation} AND messages.number >= :vectors_from
    AND messages.number <= {page_end} AND search_rows.vector IS NOT NULL AND {unexpired}
ORDER BY messages.number

-- name: vectors_of
-- The vectors of some messages; numbers is a JSON list.
SELECT messages.number, search_rows.place & 255, search_rows.model_id, search_rows.vector
FROM messages INDEXED BY messages_by_number CROSS JOIN search_rows ON {segments}
WHERE messages.number IN (SELECT value FROM json_each(:numbers)) AND messages.owner = {owner}
    AND search_rows.vector IS NOT NULL AND {unexpired}
ORDER BY messages.number

-- fragment: unindexed
-- Messages that lack their terms or, where a model is named, a vector of that or any model.
FROM messages INDEXED BY messages_by_owner
LEFT JOIN search_rows ON search_rows.place = messages.number << 8
WHERE messages.owner = {owner} AND {conversation} AND messages.number > :after AND {unexpired}
    AND (
        search_rows.place IS NULL OR search_rows.analyser <> :analyser
        OR (
            :model_id IS NOT NULL AND length(search_rows.term_hashes) > 0
            AND (search_rows.vector IS NULL OR NOT (:any_model OR search_rows.model_id = :model_id))
        )
    )

-- name: unindexed_messages
-- Oldest first.
SELECT messages.number, messages.text {unindexed} ORDER BY messages.number LIMIT :limit

-- name: count_unindexed
SELECT count(*) FROM (SELECT 1 {unindexed} LIMIT coalesce(:limit, -1))

-- name: newest_model
-- Which model made the user's newest vector, and its number of bytes.
SELECT search_rows.model_id, length(search_rows.vector)
FROM messages INDEXED BY messages_by_owner CROSS JOIN search_rows ON search_rows.place = messages.number << 8
WHERE messages.owner = {owner} AND {conversation} AND search_rows.vector IS NOT NULL AND {unexpired}
ORDER BY messages.number DESC LIMIT 1

-- name: present_numbers
-- Which of some messages are still there, and are searched; numbers is a JSON list.
SELECT number FROM messages INDEXED BY messages_by_number
WHERE number IN (SELECT value FROM json_each(:numbers)) AND owner = {owner} AND {conversation} AND {unexpired}

-- name: numbers_with_metadata
-- The messages whose metadata have all the wanted values; metadata is a JSON object of scalars. Values are
-- compared as JSON text, which the store writes in one form: 1, 1.0, true and "1" differ.
SELECT messages.number FROM messages INDEXED BY messages_by_owner
WHERE messages.owner = {owner} AND {conversation} AND {unexpired} AND NOT EXISTS (
    SELECT 1 FROM json_each(:metadata) AS wanted
    WHERE CASE WHEN json_valid(messages.metadata) THEN messages.metadata -> wanted.fullkey END
        IS NOT :metadata -> wanted.fullkey
)
ORDER BY messages.number

-- name: put_search_row
-- A row without a vector leaves the one that is there.
INSERT INTO search_rows (place, kind, analyser, asks, term_hashes, term_counts, model_id, vector)
VALUES (
    (:number << 8) + :segment, :kind, :analyser, :asks, :term_hashes, :term_counts, :model_id, :vector
)
ON CONFLICT (place) DO UPDATE SET
    analyser = excluded.analyser, asks = excluded.asks,
    term_hashes = excluded.term_hashes, term_counts = excluded.term_counts,
    model_id = coalesce(excluded.model_id, model_id), vector = coalesce(excluded.vector, vector)

-- name: delete_search_rows_of
-- numbers is a JSON list, of messages that are deleted already or are indexed again.
DELETE FROM search_rows WHERE place IN (
    SELECT search_rows.place FROM json_each(:numbers) CROSS JOIN search_rows
        ON search_rows.place >= json_each.value << 8 AND search_rows.place < (json_each.value + 1) << 8
)

-- name: delete_thread_search_rows
-- Runs before the thread's messages are deleted.
DELETE FROM search_rows WHERE place IN (
    SELECT search_rows.place FROM threads CROSS JOIN messages ON {in_thread}
        CROSS JOIN search_rows ON {segments}
    WHERE {this_thread}
)

-- name: count_search_rows
-- Like the next one, it knows the rows of messages that are there.
SELECT count(*) FROM threads CROSS JOIN messages ON {in_thread} CROSS JOIN search_rows ON {segments}
WHERE {this_user}

-- name: delete_search_rows
DELETE FROM search_rows WHERE place IN (
    SELECT search_rows.place FROM threads CROSS JOIN messages ON {in_thread}
        CROSS JOIN search_rows ON {segments}
    WHERE {this_user}
)
