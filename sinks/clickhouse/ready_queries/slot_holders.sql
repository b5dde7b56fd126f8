-- Users whose slot holds a value now, those who said it last first.
-- tenant = default: the tenant
-- topic: the slot's topic
-- sub_topic: the slot's name
-- limit = 1000: rows at the most
SELECT user_id, assumeNotNull((argMax(tuple(after), version) AS latest).1) AS value, max(said_at) AS last_said_at
FROM profile_deltas
WHERE tenant_id = {tenant:String} AND kind = 'slot' AND op != 'overtaken'
    AND topic = {topic:String} AND sub_topic = {sub_topic:String}
GROUP BY user_id
HAVING latest.1 IS NOT NULL
ORDER BY last_said_at DESC, user_id
LIMIT {limit:UInt64}
