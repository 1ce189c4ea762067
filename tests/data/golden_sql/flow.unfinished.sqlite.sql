SELECT jobplaybook.jobs.queue, count(*) AS count 
FROM jobplaybook.jobs 
WHERE (jobplaybook.jobs.status IN ('pending', 'processing', 'held') OR (jobplaybook.jobs.finished_at) > 1796094000000000) AND ((jobplaybook.jobs.created_at) IS NULL OR (jobplaybook.jobs.created_at) <= 1796094000000000) GROUP BY jobplaybook.jobs.queue ORDER BY jobplaybook.jobs.queue NULLS FIRST
