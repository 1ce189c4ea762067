SELECT count(*) AS count_1 
FROM jobplaybook.jobs 
WHERE (jobplaybook.jobs.created_at) > 1796094000000000
