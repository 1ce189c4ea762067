SELECT due.queue, count(*) AS due, count(*) FILTER (WHERE due.blocked = 0) AS count, min(due.available_at) FILTER (WHERE due.blocked = 0) AS oldest_at, count(DISTINCT due.tenant_id) AS tenants, count(DISTINCT due.job_type) AS types 
FROM (SELECT jobplaybook.jobs.queue AS queue, jobplaybook.jobs.tenant_id AS tenant_id, jobplaybook.jobs.job_type AS job_type, (jobplaybook.jobs.available_at) AS available_at, jobplaybook.jobs.shard IS NOT NULL AND (jobplaybook.jobs.shard IN (SELECT runs.shard 
FROM jobplaybook.jobs AS runs 
WHERE runs.status = 'processing' AND runs.shard IS NOT NULL) OR jobplaybook.jobs.id IN (SELECT line.id 
FROM (SELECT waits.id AS id, row_number() OVER (PARTITION BY waits.shard ORDER BY waits.priority DESC NULLS LAST, (waits.created_at) NULLS LAST, length(waits.id), waits.id) AS place 
FROM jobplaybook.jobs AS waits 
WHERE waits.status = 'pending' AND waits.shard IS NOT NULL) AS line 
WHERE line.place > 1)) AS blocked 
FROM jobplaybook.jobs 
WHERE jobplaybook.jobs.status = 'pending' AND coalesce((jobplaybook.jobs.available_at) <= 1796094000000000, 1) = 1) AS due GROUP BY due.queue ORDER BY due.queue NULLS FIRST
