SELECT (jobplaybook.attempts.ended_at) - (jobplaybook.attempts.started_at) AS ran 
FROM jobplaybook.attempts JOIN jobplaybook.jobs ON jobplaybook.jobs.id = jobplaybook.attempts.job_id 
WHERE (jobplaybook.attempts.ended_at) - (jobplaybook.attempts.started_at) >= 0 AND jobplaybook.attempts.outcome IN ('succeeded', 'failed') ORDER BY (jobplaybook.attempts.ended_at) - (jobplaybook.attempts.started_at)
