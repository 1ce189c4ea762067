SELECT jobplaybook.jobs.id, jobplaybook.jobs.job_type, jobplaybook.jobs.queue, jobplaybook.jobs.tenant_id, jobplaybook.jobs.owner, (jobplaybook.jobs.claimed_at) AS claimed_at, (jobplaybook.jobs.locked_until) AS locked_until, (jobplaybook.jobs.read_at) AS read_at 
FROM jobplaybook.jobs 
WHERE jobplaybook.jobs.status = 'processing' ORDER BY jobplaybook.jobs.id
