SELECT names.queue 
FROM (SELECT jobplaybook.jobs.queue AS queue 
FROM jobplaybook.jobs UNION SELECT jobplaybook.queues.queue AS queue 
FROM jobplaybook.queues) AS names ORDER BY (names.queue) COLLATE "C" NULLS FIRST
