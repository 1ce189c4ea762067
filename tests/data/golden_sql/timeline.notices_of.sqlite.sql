SELECT jobplaybook.outbox.id, jobplaybook.outbox.job_id, jobplaybook.outbox.topic, (jobplaybook.outbox.created_at) AS created_at, (jobplaybook.outbox.published_at) AS published_at, jobplaybook.outbox.attempts 
FROM jobplaybook.outbox 
WHERE jobplaybook.outbox.job_id = '2' ORDER BY (jobplaybook.outbox.created_at) NULLS LAST, jobplaybook.outbox.id
