SELECT jobplaybook.deliveries.id AS id, jobplaybook.deliveries.event_type AS event_type, jobplaybook.deliveries.job_id AS job_id, (jobplaybook.deliveries.received_at) AS received_at, jobplaybook.deliveries.times_received AS times_received, (jobplaybook.deliveries.processed_at) AS processed_at, jobplaybook.deliveries.outcome AS outcome 
FROM jobplaybook.deliveries 
WHERE jobplaybook.deliveries.job_id = '2' ORDER BY (jobplaybook.deliveries.received_at) NULLS LAST, jobplaybook.deliveries.id
