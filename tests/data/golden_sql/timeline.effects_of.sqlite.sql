SELECT jobplaybook.effects.effect_key, jobplaybook.effects.job_id, jobplaybook.effects.attempt, jobplaybook.effects.kind, jobplaybook.effects.status, jobplaybook.effects.provider_id, jobplaybook.effects.input_version, (jobplaybook.effects.intended_at) AS intended_at, (jobplaybook.effects.confirmed_at) AS confirmed_at 
FROM jobplaybook.effects 
WHERE jobplaybook.effects.job_id = '2' ORDER BY (jobplaybook.effects.intended_at) NULLS LAST, jobplaybook.effects.effect_key
