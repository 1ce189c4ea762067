SELECT bucketed.kind, bucketed.queue, bucketed.bucket_at, count(*) AS count 
FROM (SELECT event.kind AS kind, event.queue AS queue, event.at - event.at %% 60000000 AS bucket_at 
FROM (SELECT 'arrival' AS kind, jobplaybook.jobs.queue AS queue, (CASE WHEN isfinite(jobplaybook.jobs.created_at) THEN CAST(date_part('epoch', jobplaybook.jobs.created_at) * 1000000 AS BIGINT) END) AS at 
FROM jobplaybook.jobs 
WHERE (CASE WHEN isfinite(jobplaybook.jobs.created_at) THEN CAST(date_part('epoch', jobplaybook.jobs.created_at) * 1000000 AS BIGINT) END) IS NOT NULL UNION ALL SELECT 'claim' AS kind, jobplaybook.jobs.queue AS queue, (CASE WHEN isfinite(jobplaybook.attempts.started_at) THEN CAST(date_part('epoch', jobplaybook.attempts.started_at) * 1000000 AS BIGINT) END) AS at 
FROM jobplaybook.attempts JOIN jobplaybook.jobs ON jobplaybook.jobs.id = jobplaybook.attempts.job_id 
WHERE (CASE WHEN isfinite(jobplaybook.attempts.started_at) THEN CAST(date_part('epoch', jobplaybook.attempts.started_at) * 1000000 AS BIGINT) END) IS NOT NULL UNION ALL SELECT 'completion' AS kind, jobplaybook.jobs.queue AS queue, (CASE WHEN isfinite(jobplaybook.jobs.finished_at) THEN CAST(date_part('epoch', jobplaybook.jobs.finished_at) * 1000000 AS BIGINT) END) AS at 
FROM jobplaybook.jobs 
WHERE jobplaybook.jobs.status = 'completed' AND (CASE WHEN isfinite(jobplaybook.jobs.finished_at) THEN CAST(date_part('epoch', jobplaybook.jobs.finished_at) * 1000000 AS BIGINT) END) IS NOT NULL UNION ALL SELECT 'dead' AS kind, jobplaybook.jobs.queue AS queue, (CASE WHEN isfinite(jobplaybook.jobs.finished_at) THEN CAST(date_part('epoch', jobplaybook.jobs.finished_at) * 1000000 AS BIGINT) END) AS at 
FROM jobplaybook.jobs 
WHERE jobplaybook.jobs.status = 'dead' AND (CASE WHEN isfinite(jobplaybook.jobs.finished_at) THEN CAST(date_part('epoch', jobplaybook.jobs.finished_at) * 1000000 AS BIGINT) END) IS NOT NULL) AS event 
WHERE event.at BETWEEN 1796090400000000 AND 1796094000000000) AS bucketed GROUP BY bucketed.kind, bucketed.queue, bucketed.bucket_at ORDER BY (bucketed.kind) COLLATE "C", (bucketed.queue) COLLATE "C" NULLS FIRST, bucketed.bucket_at
