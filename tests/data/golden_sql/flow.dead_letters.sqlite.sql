SELECT jobplaybook.jobs.id, jobplaybook.jobs.job_type, jobplaybook.jobs.queue, jobplaybook.jobs.tenant_id, (jobplaybook.jobs.finished_at) AS finished_at 
FROM jobplaybook.jobs 
WHERE jobplaybook.jobs.status = 'dead' AND (jobplaybook.jobs.finished_at) BETWEEN 1796090400000000 AND 1796094000000000 ORDER BY (jobplaybook.jobs.finished_at), jobplaybook.jobs.id
