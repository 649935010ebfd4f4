-- name: vectors_from
-- The newest vectors after a stamp, oldest first.
SELECT stamp, number, model_id, dimensions, spans, vectors FROM vectors
WHERE {this_user} AND stamp > :after ORDER BY stamp

-- name: without_vectors
-- Messages that have something to embed and no vector of the model, oldest first.
SELECT number, text FROM messages
WHERE {this_user} AND term_hashes IS NOT NULL AND length(term_hashes) > 0 AND number > :after
    AND NOT EXISTS (
        SELECT 1 FROM vectors
        WHERE {this_user} AND vectors.number = messages.number
            AND (:any_model OR vectors.model_id = :model_id)
    )
ORDER BY number LIMIT :limit

-- name: newest_vector
-- Which model made the user's newest vector.
SELECT model_id, dimensions FROM vectors WHERE {this_user} ORDER BY stamp DESC LIMIT 1

-- name: present_numbers
-- Which of some messages are still there; numbers is a JSON list. Without the hint SQLite would walk
-- through all messages of the user.
SELECT number FROM messages NOT INDEXED
WHERE {this_user} AND number IN (SELECT value FROM json_each(:numbers))

-- name: put_vectors
INSERT INTO vectors (stamp, user_id, tenant_id, number, model_id, dimensions, spans, vectors)
VALUES (:stamp, :user_id, :tenant_id, :number, :model_id, :dimensions, :spans, :vectors)
ON CONFLICT (user_id, tenant_id, number) DO UPDATE SET
    stamp = excluded.stamp, model_id = excluded.model_id, dimensions = excluded.dimensions,
    spans = excluded.spans, vectors = excluded.vectors

-- name: delete_vectors_of
-- numbers is a JSON list.
DELETE FROM vectors WHERE {this_user} AND number IN (SELECT value FROM json_each(:numbers))

-- name: delete_thread_vectors
-- Runs before the thread's messages are deleted.
DELETE FROM vectors
WHERE {this_user} AND number IN (SELECT number FROM messages WHERE {this_thread})

-- name: count_vectors
SELECT count(*) FROM vectors WHERE {this_user}

-- name: delete_vectors
DELETE FROM vectors WHERE {this_user}
