-- Dead letters by stage, reason and what became of them.
-- tenant = *: only this tenant; * means all, and those that say of nobody whose they are
SELECT stage, reason, state, count() AS letters, uniqExact(tenant_id, user_id) AS users, max(failed_at) AS last_failed_at
FROM dead_letters_current
WHERE {tenant:String} = '*' OR tenant_id = {tenant:String}
GROUP BY stage, reason, state
ORDER BY letters DESC, stage, reason, state
