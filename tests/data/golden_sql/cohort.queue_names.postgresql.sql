SELECT jobplaybook.jobs.queue 
FROM jobplaybook.jobs GROUP BY jobplaybook.jobs.queue ORDER BY (jobplaybook.jobs.queue) COLLATE "C" NULLS FIRST
