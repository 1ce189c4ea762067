SELECT jobplaybook.jobs.queue, (jobplaybook.jobs.created_at) AS created_at, (jobplaybook.jobs.finished_at) AS finished_at 
FROM jobplaybook.jobs 
WHERE jobplaybook.jobs.created_at IS NOT NULL AND (jobplaybook.jobs.created_at) <= 1796094000000000 AND (jobplaybook.jobs.finished_at IS NULL OR (jobplaybook.jobs.finished_at) >= 1796090400000000) ORDER BY (jobplaybook.jobs.created_at), jobplaybook.jobs.id
