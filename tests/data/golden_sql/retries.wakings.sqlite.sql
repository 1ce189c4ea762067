SELECT parked.queue, parked.wakes_at, count(*) AS jobs, count(*) FILTER (WHERE coalesce(parked.attempts, 0) > 0) AS retries 
FROM (SELECT jobplaybook.jobs.queue AS queue, jobplaybook.jobs.attempts AS attempts, (jobplaybook.jobs.available_at) - (jobplaybook.jobs.available_at) % 10000000 AS wakes_at 
FROM jobplaybook.jobs 
WHERE jobplaybook.jobs.status = 'pending' AND (jobplaybook.jobs.available_at) > 1796094000000000 AND (jobplaybook.jobs.available_at) <= 1796097600000000) AS parked GROUP BY parked.queue, parked.wakes_at ORDER BY parked.queue NULLS FIRST, parked.wakes_at NULLS FIRST
