SELECT counted.queue, max(counted.claims) AS most 
FROM (SELECT steps.queue AS queue, count(*) AS claims 
FROM (SELECT jobplaybook.jobs.queue AS queue, (CASE WHEN jobplaybook.jobs.claimed_at IS NOT NULL THEN CAST(LEAST(GREATEST(date_part('epoch', jobplaybook.jobs.claimed_at), -62135596800), 253402300799) * 1000000 AS BIGINT) END) / 60000000 AS step 
FROM jobplaybook.jobs 
WHERE (CASE WHEN jobplaybook.jobs.claimed_at IS NOT NULL THEN CAST(LEAST(GREATEST(date_part('epoch', jobplaybook.jobs.claimed_at), -62135596800), 253402300799) * 1000000 AS BIGINT) END) BETWEEN 1796090400000000 AND 1796094000000000) AS steps GROUP BY steps.queue, steps.step) AS counted GROUP BY counted.queue ORDER BY (counted.queue) COLLATE "C" NULLS FIRST
