-- Placeholder: the migration of vectors takes this number.
CREATE TABLE placeholder_of_vectors (number INTEGER) STRICT;
