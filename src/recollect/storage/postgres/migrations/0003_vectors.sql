-- Placeholder: the migration of vectors takes this number.
SELECT 1;
