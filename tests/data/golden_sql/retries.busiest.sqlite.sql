SELECT ranked.queue, ranked.job_type, ranked.id, ranked.retries 
FROM (SELECT counted.queue AS queue, counted.job_type AS job_type, counted.id AS id, counted.retries AS retries, row_number() OVER (PARTITION BY counted.queue, counted.job_type ORDER BY counted.retries DESC, length(counted.id), counted.id) AS place 
FROM (SELECT jobplaybook.jobs.queue AS queue, jobplaybook.jobs.job_type AS job_type, jobplaybook.jobs.id AS id, count(*) AS retries 
FROM jobplaybook.attempts JOIN jobplaybook.jobs ON jobplaybook.jobs.id = jobplaybook.attempts.job_id 
WHERE jobplaybook.attempts.attempt > 1 AND (jobplaybook.attempts.started_at) BETWEEN 1796090400000000 AND 1796094000000000 GROUP BY jobplaybook.jobs.queue, jobplaybook.jobs.job_type, jobplaybook.jobs.id) AS counted) AS ranked 
WHERE ranked.place <= 2 ORDER BY ranked.queue NULLS FIRST, ranked.job_type NULLS FIRST, ranked.place
