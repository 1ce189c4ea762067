SELECT jobplaybook.jobs.queue, jobplaybook.jobs.job_type, min(jobplaybook.jobs.max_attempts) AS least, max(jobplaybook.jobs.max_attempts) AS most 
FROM jobplaybook.attempts JOIN jobplaybook.jobs ON jobplaybook.jobs.id = jobplaybook.attempts.job_id 
WHERE (jobplaybook.attempts.started_at) BETWEEN 1796090400000000 AND 1796094000000000 GROUP BY jobplaybook.jobs.queue, jobplaybook.jobs.job_type ORDER BY jobplaybook.jobs.queue NULLS FIRST, jobplaybook.jobs.job_type NULLS FIRST
