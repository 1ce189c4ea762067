SELECT counted.queue, max(counted.claims) AS most 
FROM (SELECT steps.queue AS queue, count(*) AS claims 
FROM (SELECT jobplaybook.jobs.queue AS queue, (jobplaybook.jobs.claimed_at) / 60000000 AS step 
FROM jobplaybook.jobs 
WHERE (jobplaybook.jobs.claimed_at) BETWEEN 1796090400000000 AND 1796094000000000) AS steps GROUP BY steps.queue, steps.step) AS counted GROUP BY counted.queue ORDER BY counted.queue NULLS FIRST
