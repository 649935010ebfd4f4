-- name: vectors_from
-- The newest vectors after a stamp, oldest first.
SELECT stamp, number, model_id, dimensions, spans, vectors FROM recollect.vectors
WHERE {this_user} AND stamp > %(after)s ORDER BY stamp

-- name: without_vectors
-- Messages that have something to embed and no vector of the model, oldest first.
SELECT number, text FROM recollect.messages
WHERE {this_user} AND term_hashes IS NOT NULL AND octet_length(term_hashes) > 0 AND number > %(after)s
    AND NOT EXISTS (
        SELECT 1 FROM recollect.vectors
        WHERE {this_user} AND vectors.number = messages.number
            AND (%(any_model)s OR vectors.model_id = %(model_id)s)
    )
ORDER BY number LIMIT %(limit)s

-- name: newest_vector
-- Which model made the user's newest vector.
SELECT model_id, dimensions FROM recollect.vectors WHERE {this_user} ORDER BY stamp DESC LIMIT 1

-- name: present_numbers
-- Which of some messages are still there; numbers is a JSON list.
SELECT number FROM recollect.messages
WHERE {this_user} AND number = ANY (ARRAY(SELECT json_array_elements_text(%(numbers)s::json)::bigint))

-- name: put_vectors
INSERT INTO recollect.vectors (stamp, user_id, tenant_id, number, model_id, dimensions, spans, vectors)
VALUES (%(stamp)s, %(user_id)s, %(tenant_id)s, %(number)s, %(model_id)s, %(dimensions)s, %(spans)s, %(vectors)s)
ON CONFLICT (user_id, tenant_id, number) DO UPDATE SET
    stamp = excluded.stamp, model_id = excluded.model_id, dimensions = excluded.dimensions,
    spans = excluded.spans, vectors = excluded.vectors

-- name: delete_vectors_of
-- numbers is a JSON list.
DELETE FROM recollect.vectors WHERE {this_user} AND number = ANY (ARRAY(SELECT json_array_elements_text(%(numbers)s::json)::bigint))

-- name: delete_thread_vectors
-- Runs before the thread's messages are deleted.
DELETE FROM recollect.vectors
WHERE {this_user} AND number IN (SELECT number FROM recollect.messages WHERE {this_thread})

-- name: count_vectors
SELECT count(*) FROM recollect.vectors WHERE {this_user}

-- name: delete_vectors
DELETE FROM recollect.vectors WHERE {this_user}
