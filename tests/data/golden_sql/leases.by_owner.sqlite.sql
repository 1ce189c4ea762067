SELECT held_by.owner, held_by.jobs, held_by.expired, held_by.oldest_claimed_at, held_by.first_locked_until, (jobplaybook.workers.heartbeat_at) AS heartbeat_at 
FROM (SELECT jobplaybook.jobs.owner AS owner, count(*) AS jobs, sum(CASE WHEN ((jobplaybook.jobs.locked_until) < (jobplaybook.jobs.read_at)) THEN 1 ELSE 0 END) AS expired, min((jobplaybook.jobs.claimed_at)) AS oldest_claimed_at, min((jobplaybook.jobs.locked_until)) AS first_locked_until 
FROM jobplaybook.jobs 
WHERE jobplaybook.jobs.status = 'processing' GROUP BY jobplaybook.jobs.owner) AS held_by LEFT OUTER JOIN jobplaybook.workers ON jobplaybook.workers.owner = held_by.owner ORDER BY held_by.owner NULLS FIRST
