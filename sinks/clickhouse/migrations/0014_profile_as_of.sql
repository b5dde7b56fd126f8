-- A user's profile as it was at a time: slots, facts, preferences and tags, a row each.
--     SELECT * FROM profile_as_of(tenant = 'default', user = 'anna', clock = 'recorded', at = '2026-03-01T12:00:00Z')
--
-- clock 'recorded': what the profile held then. clock 'said': what of it had been said by then, however late it came in;
-- of a slot that was extended it may show words that were said later, when they were recorded first.
-- Repeated rows change none of these aggregates, and the conditions reach the key of profile_deltas.
CREATE VIEW IF NOT EXISTS profile_as_of AS
SELECT
    d.kind AS kind,
    argMax(d.topic, d.version) AS topic,
    argMax(d.sub_topic, d.version) AS sub_topic,
    any(d.item_id) AS item_id,
    assumeNotNull((argMax(tuple(d.after), d.version) AS latest).1) AS value,
    argMax(d.update_hits, d.version) AS update_hits,
    argMax(d.confidence, d.version) AS confidence,
    argMax(d.strength, d.version) AS strength,
    argMax(d.evidence, d.version) AS evidence,
    argMax(d.said_at, d.version) AS said_at,
    argMax(d.recorded_at, d.version) AS recorded_at,
    max(d.version) AS version
FROM profile_deltas AS d
WHERE d.tenant_id = {tenant:String}
    AND d.user_id = {user:String}
    AND d.kind != 'profile'
    AND d.op != 'overtaken'
    AND if({clock:String} = 'said', d.said_at, d.recorded_at) <= parseDateTime64BestEffort({at:String}, 6, 'UTC')
GROUP BY d.kind, if(d.item_id = '', (d.topic, d.sub_topic), (d.item_id, ''))
HAVING latest.1 IS NOT NULL;
