-- A user's profile as it was at a time, by what was recorded or by what was said until then.
-- tenant = default: the user's tenant
-- user: the user
-- at = now: the time, such as 2026-03-01 or 2026-03-01T12:00:00+01:00
-- clock = recorded: recorded (what the profile held then) or said (what had been said then, however late it came in)
SELECT kind, topic, sub_topic, value, update_hits, confidence, strength, evidence, said_at, recorded_at, version, item_id
FROM profile_as_of(tenant = {tenant:String}, user = {user:String}, clock = {clock:String}, at = {at:String})
ORDER BY kind = 'tag', kind != 'slot', kind, topic, sub_topic, said_at, version
