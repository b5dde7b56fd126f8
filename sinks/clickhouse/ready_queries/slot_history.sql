-- Every value that a slot had: when, why, and which messages said so.
-- tenant = default: the user's tenant
-- user: the user
-- topic: the slot's topic
-- sub_topic: the slot's name
SELECT version, op, before, after, reason, evidence, assertion, said_at, recorded_at, processor, flush_id
FROM profile_deltas
WHERE tenant_id = {tenant:String} AND user_id = {user:String}
    AND kind = 'slot' AND topic = {topic:String} AND sub_topic = {sub_topic:String}
ORDER BY version
LIMIT 1 BY version, delta_id
