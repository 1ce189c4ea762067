SELECT event.kind, event.queue, count(*) AS count, min(event.at) AS first_at, max(event.at) AS last_at 
FROM (SELECT 'arrival' AS kind, jobplaybook.jobs.queue AS queue, (jobplaybook.jobs.created_at) AS at 
FROM jobplaybook.jobs 
WHERE (jobplaybook.jobs.created_at) IS NOT NULL UNION ALL SELECT 'claim' AS kind, jobplaybook.jobs.queue AS queue, (jobplaybook.attempts.started_at) AS at 
FROM jobplaybook.attempts JOIN jobplaybook.jobs ON jobplaybook.jobs.id = jobplaybook.attempts.job_id 
WHERE (jobplaybook.attempts.started_at) IS NOT NULL UNION ALL SELECT 'completion' AS kind, jobplaybook.jobs.queue AS queue, (jobplaybook.jobs.finished_at) AS at 
FROM jobplaybook.jobs 
WHERE (jobplaybook.jobs.finished_at) IS NOT NULL AND jobplaybook.jobs.status = 'completed' UNION ALL SELECT 'dead' AS kind, jobplaybook.jobs.queue AS queue, (jobplaybook.jobs.finished_at) AS at 
FROM jobplaybook.jobs 
WHERE (jobplaybook.jobs.finished_at) IS NOT NULL AND jobplaybook.jobs.status = 'dead') AS event 
WHERE event.at BETWEEN 1796090400000000 AND 1796094000000000 GROUP BY event.kind, event.queue ORDER BY event.kind NULLS FIRST, event.queue NULLS FIRST
