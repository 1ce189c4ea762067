SELECT counted.kind, counted.queue, counted.count, counted.first_at, counted.last_at 
FROM (SELECT 'arrival' AS kind, jobplaybook.jobs.queue AS queue, count(*) AS count, min((jobplaybook.jobs.created_at)) AS first_at, max((jobplaybook.jobs.created_at)) AS last_at 
FROM jobplaybook.jobs 
WHERE (jobplaybook.jobs.created_at) BETWEEN 1796090400000000 AND 1796094000000000 GROUP BY jobplaybook.jobs.queue UNION ALL SELECT 'claim' AS kind, jobplaybook.jobs.queue AS queue, count(*) AS count, min((jobplaybook.attempts.started_at)) AS first_at, max((jobplaybook.attempts.started_at)) AS last_at 
FROM jobplaybook.attempts JOIN jobplaybook.jobs ON jobplaybook.jobs.id = jobplaybook.attempts.job_id 
WHERE (jobplaybook.attempts.started_at) BETWEEN 1796090400000000 AND 1796094000000000 GROUP BY jobplaybook.jobs.queue UNION ALL SELECT 'completion' AS kind, jobplaybook.jobs.queue AS queue, count(*) AS count, min((jobplaybook.jobs.finished_at)) AS first_at, max((jobplaybook.jobs.finished_at)) AS last_at 
FROM jobplaybook.jobs 
WHERE jobplaybook.jobs.status = 'completed' AND (jobplaybook.jobs.finished_at) BETWEEN 1796090400000000 AND 1796094000000000 GROUP BY jobplaybook.jobs.queue UNION ALL SELECT 'dead' AS kind, jobplaybook.jobs.queue AS queue, count(*) AS count, min((jobplaybook.jobs.finished_at)) AS first_at, max((jobplaybook.jobs.finished_at)) AS last_at 
FROM jobplaybook.jobs 
WHERE jobplaybook.jobs.status = 'dead' AND (jobplaybook.jobs.finished_at) BETWEEN 1796090400000000 AND 1796094000000000 GROUP BY jobplaybook.jobs.queue) AS counted ORDER BY counted.kind NULLS FIRST, counted.queue NULLS FIRST
