SELECT jobplaybook.jobs.queue, (jobplaybook.jobs.claimed_at) AS claimed_at, (jobplaybook.jobs.claimed_at) - (jobplaybook.jobs.available_at) AS wait 
FROM jobplaybook.jobs 
WHERE (jobplaybook.jobs.claimed_at) >= 1796090400000000 AND (jobplaybook.jobs.claimed_at) < 1796094000000000 AND (jobplaybook.jobs.claimed_at) - (jobplaybook.jobs.available_at) >= 0 ORDER BY (jobplaybook.jobs.claimed_at) - (jobplaybook.jobs.available_at), jobplaybook.jobs.id
