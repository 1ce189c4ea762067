SELECT jobplaybook.jobs.queue, jobplaybook.jobs.job_type, count(*) AS completions 
FROM jobplaybook.jobs 
WHERE jobplaybook.jobs.status = 'completed' AND (CASE WHEN jobplaybook.jobs.finished_at IS NOT NULL THEN CAST(LEAST(GREATEST(date_part('epoch', jobplaybook.jobs.finished_at), -62135596800), 253402300799) * 1000000 AS BIGINT) END) BETWEEN 1796090400000000 AND 1796094000000000 GROUP BY jobplaybook.jobs.queue, jobplaybook.jobs.job_type ORDER BY (jobplaybook.jobs.queue) COLLATE "C" NULLS FIRST, (jobplaybook.jobs.job_type) COLLATE "C" NULLS FIRST
