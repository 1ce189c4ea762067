SELECT count(*) AS count_1 
FROM jobplaybook.jobs 
WHERE (CASE WHEN jobplaybook.jobs.created_at IS NOT NULL THEN CAST(LEAST(GREATEST(date_part('epoch', jobplaybook.jobs.created_at), -62135596800), 253402300799) * 1000000 AS BIGINT) END) > 1796094000000000
