SELECT jobplaybook.jobs.queue, jobplaybook.jobs.tenant_id AS name, count(*) AS due 
FROM jobplaybook.jobs 
WHERE jobplaybook.jobs.status = 'pending' AND coalesce((jobplaybook.jobs.available_at) <= 1796094000000000, 1) = 1 AND jobplaybook.jobs.tenant_id IS NOT NULL GROUP BY jobplaybook.jobs.queue, jobplaybook.jobs.tenant_id ORDER BY jobplaybook.jobs.queue NULLS FIRST, due DESC, jobplaybook.jobs.tenant_id
