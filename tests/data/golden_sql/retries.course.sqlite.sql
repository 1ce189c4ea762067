SELECT event.kind, event.queue, event.job_type, event.step, count(*) AS count 
FROM (SELECT 'retry' AS kind, jobplaybook.jobs.queue AS queue, jobplaybook.jobs.job_type AS job_type, ((jobplaybook.attempts.started_at) - 1796090400000000) / 60000000 AS step 
FROM jobplaybook.attempts JOIN jobplaybook.jobs ON jobplaybook.jobs.id = jobplaybook.attempts.job_id 
WHERE jobplaybook.attempts.attempt > 1 AND (jobplaybook.attempts.started_at) BETWEEN 1796090400000000 AND 1796094000000000 UNION ALL SELECT 'completion' AS kind, jobplaybook.jobs.queue AS queue, jobplaybook.jobs.job_type AS job_type, ((jobplaybook.jobs.finished_at) - 1796090400000000) / 60000000 AS step 
FROM jobplaybook.jobs 
WHERE jobplaybook.jobs.status = 'completed' AND (jobplaybook.jobs.finished_at) BETWEEN 1796090400000000 AND 1796094000000000) AS event GROUP BY event.kind, event.queue, event.job_type, event.step ORDER BY event.kind NULLS FIRST, event.queue NULLS FIRST, event.job_type NULLS FIRST, event.step NULLS FIRST
