SELECT ranked.queue, ranked.job_type, ranked.id, ranked.retries 
FROM (SELECT counted.queue AS queue, counted.job_type AS job_type, counted.id AS id, counted.retries AS retries, row_number() OVER (PARTITION BY counted.queue, counted.job_type ORDER BY counted.retries DESC, length(counted.id), (counted.id) COLLATE "C") AS place 
FROM (SELECT jobplaybook.jobs.queue AS queue, jobplaybook.jobs.job_type AS job_type, jobplaybook.jobs.id AS id, count(*) AS retries 
FROM jobplaybook.attempts JOIN jobplaybook.jobs ON jobplaybook.jobs.id = jobplaybook.attempts.job_id 
WHERE jobplaybook.attempts.attempt > 1 AND (CASE WHEN jobplaybook.attempts.started_at IS NOT NULL THEN CAST(LEAST(GREATEST(date_part('epoch', jobplaybook.attempts.started_at), -62135596800), 253402300799) * 1000000 AS BIGINT) END) BETWEEN 1796090400000000 AND 1796094000000000 GROUP BY jobplaybook.jobs.queue, jobplaybook.jobs.job_type, jobplaybook.jobs.id) AS counted) AS ranked 
WHERE ranked.place <= 2 ORDER BY (ranked.queue) COLLATE "C" NULLS FIRST, (ranked.job_type) COLLATE "C" NULLS FIRST, ranked.place
