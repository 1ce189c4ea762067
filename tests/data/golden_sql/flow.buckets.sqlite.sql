SELECT bucketed.kind, bucketed.queue, bucketed.bucket_at, count(*) AS count 
FROM (SELECT event.kind AS kind, event.queue AS queue, event.at - event.at % 60000000 AS bucket_at 
FROM (SELECT 'arrival' AS kind, jobplaybook.jobs.queue AS queue, (jobplaybook.jobs.created_at) AS at 
FROM jobplaybook.jobs 
WHERE (jobplaybook.jobs.created_at) IS NOT NULL UNION ALL SELECT 'claim' AS kind, jobplaybook.jobs.queue AS queue, (jobplaybook.attempts.started_at) AS at 
FROM jobplaybook.attempts JOIN jobplaybook.jobs ON jobplaybook.jobs.id = jobplaybook.attempts.job_id 
WHERE (jobplaybook.attempts.started_at) IS NOT NULL UNION ALL SELECT 'completion' AS kind, jobplaybook.jobs.queue AS queue, (jobplaybook.jobs.finished_at) AS at 
FROM jobplaybook.jobs 
WHERE jobplaybook.jobs.status = 'completed' AND (jobplaybook.jobs.finished_at) IS NOT NULL UNION ALL SELECT 'dead' AS kind, jobplaybook.jobs.queue AS queue, (jobplaybook.jobs.finished_at) AS at 
FROM jobplaybook.jobs 
WHERE jobplaybook.jobs.status = 'dead' AND (jobplaybook.jobs.finished_at) IS NOT NULL) AS event 
WHERE event.at BETWEEN 1796090400000000 AND 1796094000000000) AS bucketed GROUP BY bucketed.kind, bucketed.queue, bucketed.bucket_at ORDER BY bucketed.kind NULLS FIRST, bucketed.queue NULLS FIRST, bucketed.bucket_at NULLS FIRST
