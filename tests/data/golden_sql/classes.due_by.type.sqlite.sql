SELECT jobplaybook.jobs.queue, jobplaybook.jobs.job_type AS name, count(*) AS due 
FROM jobplaybook.jobs 
WHERE jobplaybook.jobs.status = 'pending' AND coalesce((jobplaybook.jobs.available_at) <= 1796094000000000, 1) = 1 AND jobplaybook.jobs.job_type IS NOT NULL GROUP BY jobplaybook.jobs.queue, jobplaybook.jobs.job_type ORDER BY jobplaybook.jobs.queue NULLS FIRST, due DESC, jobplaybook.jobs.job_type
