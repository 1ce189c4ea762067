SELECT jobplaybook.deliveries.id, jobplaybook.deliveries.event_type, jobplaybook.deliveries.job_id, (jobplaybook.deliveries.received_at) AS received_at, jobplaybook.deliveries.times_received, (jobplaybook.deliveries.processed_at) AS processed_at, jobplaybook.deliveries.outcome 
FROM jobplaybook.deliveries 
WHERE jobplaybook.deliveries.job_id = '2' ORDER BY (jobplaybook.deliveries.received_at) NULLS LAST, jobplaybook.deliveries.id
