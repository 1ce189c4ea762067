SELECT 'arrival' AS kind, jobplaybook.jobs.queue, (jobplaybook.jobs.created_at) AS at 
FROM jobplaybook.jobs 
WHERE (jobplaybook.jobs.created_at) IS NOT NULL UNION ALL SELECT 'claim' AS kind, jobplaybook.jobs.queue, (jobplaybook.attempts.started_at) AS at 
FROM jobplaybook.attempts JOIN jobplaybook.jobs ON jobplaybook.jobs.id = jobplaybook.attempts.job_id 
WHERE (jobplaybook.attempts.started_at) IS NOT NULL UNION ALL SELECT 'completion' AS kind, jobplaybook.jobs.queue, (jobplaybook.jobs.finished_at) AS at 
FROM jobplaybook.jobs 
WHERE jobplaybook.jobs.status = 'completed' AND (jobplaybook.jobs.finished_at) IS NOT NULL UNION ALL SELECT 'dead' AS kind, jobplaybook.jobs.queue, (jobplaybook.jobs.finished_at) AS at 
FROM jobplaybook.jobs 
WHERE jobplaybook.jobs.status = 'dead' AND (jobplaybook.jobs.finished_at) IS NOT NULL
