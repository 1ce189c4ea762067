SELECT due.queue, count(*) AS due, count(*) FILTER (WHERE NOT due.blocked) AS count, min(due.available_at) FILTER (WHERE NOT due.blocked) AS oldest_at, count(DISTINCT due.tenant_id) AS tenants, count(DISTINCT due.job_type) AS types 
FROM (SELECT jobplaybook.jobs.queue AS queue, jobplaybook.jobs.tenant_id AS tenant_id, jobplaybook.jobs.job_type AS job_type, (CASE WHEN jobplaybook.jobs.available_at IS NOT NULL THEN CAST(LEAST(GREATEST(date_part('epoch', jobplaybook.jobs.available_at), -62135596800), 253402300799) * 1000000 AS BIGINT) END) AS available_at, jobplaybook.jobs.shard IS NOT NULL AND (jobplaybook.jobs.shard IN (SELECT runs.shard 
FROM jobplaybook.jobs AS runs 
WHERE runs.status = 'processing' AND runs.shard IS NOT NULL) OR jobplaybook.jobs.id IN (SELECT line.id 
FROM (SELECT waits.id AS id, row_number() OVER (PARTITION BY waits.shard ORDER BY waits.priority DESC NULLS LAST, (CASE WHEN waits.created_at IS NOT NULL THEN CAST(LEAST(GREATEST(date_part('epoch', waits.created_at), -62135596800), 253402300799) * 1000000 AS BIGINT) END) NULLS LAST, length(waits.id), (waits.id) COLLATE "C") AS place 
FROM jobplaybook.jobs AS waits 
WHERE waits.status = 'pending' AND waits.shard IS NOT NULL) AS line 
WHERE line.place > 1)) AS blocked 
FROM jobplaybook.jobs 
WHERE jobplaybook.jobs.status = 'pending' AND coalesce((CASE WHEN jobplaybook.jobs.available_at IS NOT NULL THEN CAST(LEAST(GREATEST(date_part('epoch', jobplaybook.jobs.available_at), -62135596800), 253402300799) * 1000000 AS BIGINT) END) <= 1796094000000000, true)) AS due GROUP BY due.queue ORDER BY (due.queue) COLLATE "C" NULLS FIRST
