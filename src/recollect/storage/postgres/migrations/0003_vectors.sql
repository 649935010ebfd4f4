-- Placeholder: the migration of vectors takes this number.
CREATE TABLE recollect.placeholder_of_vectors (number bigint);
