SELECT jobplaybook.jobs.queue, jobplaybook.jobs.job_type AS name, count(*) AS due 
FROM jobplaybook.jobs 
WHERE jobplaybook.jobs.status = 'pending' AND coalesce((CASE WHEN jobplaybook.jobs.available_at IS NOT NULL THEN CAST(LEAST(GREATEST(date_part('epoch', jobplaybook.jobs.available_at), -62135596800), 253402300799) * 1000000 AS BIGINT) END) <= 1796094000000000, true) AND jobplaybook.jobs.job_type IS NOT NULL GROUP BY jobplaybook.jobs.queue, jobplaybook.jobs.job_type ORDER BY (jobplaybook.jobs.queue) COLLATE "C" NULLS FIRST, due DESC, (jobplaybook.jobs.job_type) COLLATE "C"
