-- How many of a tenant's users have a value in each slot now.
-- tenant = default: the tenant
WITH (SELECT uniqExact(cityHash64(user_id)) FROM slot_states WHERE tenant_id = {tenant:String}) AS everybody
SELECT topic, sub_topic, sum(newest % 2) AS users, users / everybody AS share
FROM slot_states FINAL
WHERE tenant_id = {tenant:String}
GROUP BY topic, sub_topic
HAVING users > 0
ORDER BY users DESC, topic, sub_topic
