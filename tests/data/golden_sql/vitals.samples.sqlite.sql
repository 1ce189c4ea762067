SELECT (jobplaybook.vitals.taken_at) AS taken_at, jobplaybook.vitals.name, jobplaybook.vitals.subject, jobplaybook.vitals.value 
FROM jobplaybook.vitals ORDER BY (jobplaybook.vitals.taken_at), jobplaybook.vitals.name, jobplaybook.vitals.subject
