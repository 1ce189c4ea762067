SELECT jobplaybook.jobs.queue, jobplaybook.jobs.job_type, jobplaybook.jobs.priority, max((jobplaybook.jobs.claimed_at)) AS at 
FROM jobplaybook.jobs 
WHERE (jobplaybook.jobs.claimed_at) BETWEEN 1796090400000000 AND 1796094000000000 GROUP BY jobplaybook.jobs.queue, jobplaybook.jobs.job_type, jobplaybook.jobs.priority ORDER BY jobplaybook.jobs.queue NULLS FIRST, jobplaybook.jobs.job_type NULLS FIRST, jobplaybook.jobs.priority NULLS FIRST
