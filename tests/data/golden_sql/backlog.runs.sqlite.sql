SELECT jobplaybook.jobs.queue, jobplaybook.jobs.job_type, (jobplaybook.attempts.started_at) AS started_at, (jobplaybook.attempts.ended_at) AS ended_at 
FROM jobplaybook.attempts JOIN jobplaybook.jobs ON jobplaybook.jobs.id = jobplaybook.attempts.job_id 
WHERE (jobplaybook.attempts.started_at) <= 1796094000000000 AND (jobplaybook.attempts.outcome = 'running' OR (jobplaybook.attempts.ended_at) >= 1796090400000000) ORDER BY (jobplaybook.attempts.started_at), jobplaybook.jobs.id, jobplaybook.attempts.attempt
