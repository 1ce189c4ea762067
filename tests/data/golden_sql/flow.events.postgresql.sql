SELECT 'arrival' AS kind, jobplaybook.jobs.queue AS queue, (CASE WHEN isfinite(jobplaybook.jobs.created_at) THEN CAST(date_part('epoch', jobplaybook.jobs.created_at) * 1000000 AS BIGINT) END) AS at 
FROM jobplaybook.jobs 
WHERE (CASE WHEN isfinite(jobplaybook.jobs.created_at) THEN CAST(date_part('epoch', jobplaybook.jobs.created_at) * 1000000 AS BIGINT) END) IS NOT NULL UNION ALL SELECT 'claim' AS kind, jobplaybook.jobs.queue AS queue, (CASE WHEN isfinite(jobplaybook.attempts.started_at) THEN CAST(date_part('epoch', jobplaybook.attempts.started_at) * 1000000 AS BIGINT) END) AS at 
FROM jobplaybook.attempts JOIN jobplaybook.jobs ON jobplaybook.jobs.id = jobplaybook.attempts.job_id 
WHERE (CASE WHEN isfinite(jobplaybook.attempts.started_at) THEN CAST(date_part('epoch', jobplaybook.attempts.started_at) * 1000000 AS BIGINT) END) IS NOT NULL UNION ALL SELECT 'completion' AS kind, jobplaybook.jobs.queue AS queue, (CASE WHEN isfinite(jobplaybook.jobs.finished_at) THEN CAST(date_part('epoch', jobplaybook.jobs.finished_at) * 1000000 AS BIGINT) END) AS at 
FROM jobplaybook.jobs 
WHERE jobplaybook.jobs.status = 'completed' AND (CASE WHEN isfinite(jobplaybook.jobs.finished_at) THEN CAST(date_part('epoch', jobplaybook.jobs.finished_at) * 1000000 AS BIGINT) END) IS NOT NULL UNION ALL SELECT 'dead' AS kind, jobplaybook.jobs.queue AS queue, (CASE WHEN isfinite(jobplaybook.jobs.finished_at) THEN CAST(date_part('epoch', jobplaybook.jobs.finished_at) * 1000000 AS BIGINT) END) AS at 
FROM jobplaybook.jobs 
WHERE jobplaybook.jobs.status = 'dead' AND (CASE WHEN isfinite(jobplaybook.jobs.finished_at) THEN CAST(date_part('epoch', jobplaybook.jobs.finished_at) * 1000000 AS BIGINT) END) IS NOT NULL
