SELECT jobplaybook.jobs.queue 
FROM jobplaybook.jobs UNION SELECT jobplaybook.queues.queue 
FROM jobplaybook.queues
