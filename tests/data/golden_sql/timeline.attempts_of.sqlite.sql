SELECT jobplaybook.attempts.job_id, jobplaybook.attempts.attempt, jobplaybook.attempts.owner, jobplaybook.attempts.fencing_token, (jobplaybook.attempts.started_at) AS started_at, (jobplaybook.attempts.ended_at) AS ended_at, jobplaybook.attempts.outcome, jobplaybook.attempts.error_code, jobplaybook.attempts.error_fingerprint, jobplaybook.attempts.retry_after_seconds, jobplaybook.attempts.upstream_calls 
FROM jobplaybook.attempts 
WHERE jobplaybook.attempts.job_id = '2' ORDER BY jobplaybook.attempts.attempt
