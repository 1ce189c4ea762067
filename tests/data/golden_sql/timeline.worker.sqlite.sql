SELECT jobplaybook.workers.owner, (jobplaybook.workers.started_at) AS started_at, (jobplaybook.workers.heartbeat_at) AS heartbeat_at, (jobplaybook.workers.stopped_at) AS stopped_at, jobplaybook.workers.lease_seconds 
FROM jobplaybook.workers 
WHERE jobplaybook.workers.owner = 'w'
