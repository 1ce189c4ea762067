SELECT came.step, count(*) AS jobs, count(*) FILTER (WHERE came.pending) AS waiting 
FROM (SELECT (coalesce((jobplaybook.jobs.available_at), (jobplaybook.jobs.created_at)) - 1796090400000000) / 60000000 AS step, jobplaybook.jobs.status = 'pending' AS pending 
FROM jobplaybook.jobs 
WHERE jobplaybook.jobs.tenant_id = 'Ä' AND jobplaybook.jobs.queue IS NULL AND coalesce((jobplaybook.jobs.available_at), (jobplaybook.jobs.created_at)) BETWEEN 1796090400000000 AND 1796094000000000) AS came GROUP BY came.step ORDER BY came.step NULLS FIRST
