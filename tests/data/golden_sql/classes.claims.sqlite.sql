SELECT jobplaybook.jobs.queue, jobplaybook.jobs.job_type, jobplaybook.jobs.priority, (jobplaybook.jobs.available_at) AS available_at 
FROM jobplaybook.jobs 
WHERE (jobplaybook.jobs.claimed_at) BETWEEN 1796090400000000 AND 1796094000000000 AND (jobplaybook.jobs.available_at) IS NOT NULL ORDER BY (jobplaybook.jobs.available_at), jobplaybook.jobs.id
