SELECT jobplaybook.jobs.queue, jobplaybook.jobs.job_type, count(*) AS completions 
FROM jobplaybook.jobs 
WHERE jobplaybook.jobs.status = 'completed' AND (jobplaybook.jobs.finished_at) BETWEEN 1796090400000000 AND 1796094000000000 GROUP BY jobplaybook.jobs.queue, jobplaybook.jobs.job_type ORDER BY jobplaybook.jobs.queue NULLS FIRST, jobplaybook.jobs.job_type NULLS FIRST
