# ruff: noqa: S608 - what is put together here are constants; values travel as query parameters
"""The archive's SELECTs. Whatever concerns one user names the tenant as well: ids are unique within a tenant only.

Which rows are a user's is said in PREWHERE where there is FINAL: else every column would be read of all rows around
theirs. Of all deltas of a user, LIMIT 1 BY leaves out repeats for less than FINAL does.
"""

from __future__ import annotations

from typing import Final

from sinks.clickhouse.columns import DELTAS, EVENTS, REFS

_OF_USER: Final = "tenant_id = {tenant:String} AND user_id = {user:String}"
_AFTER: Final = (
    "tenant_id >= {after_tenant:String} AND (tenant_id > {after_tenant:String} OR user_id > {after_user:String})"
)
_UP_TO: Final = (
    "tenant_id <= {last_tenant:String} AND (tenant_id < {last_tenant:String} OR user_id <= {last_user:String})"
)

# Without what is still to be removed since the user was forgotten.
HISTORY: Final = f"""
SELECT {DELTAS.select_list} FROM profile_deltas FINAL
PREWHERE {_OF_USER}
WHERE ({{topic:Nullable(String)}} IS NULL OR topic = {{topic:Nullable(String)}})
    AND ({{sub_topic:Nullable(String)}} IS NULL OR sub_topic = {{sub_topic:Nullable(String)}})
    AND ({{kind:Nullable(String)}} IS NULL OR kind = {{kind:Nullable(String)}})
    AND ({{item_id:Nullable(String)}} IS NULL OR item_id = {{item_id:Nullable(String)}})
    AND version >= (SELECT max(version) FROM profile_deltas WHERE {_OF_USER} AND op = 'forget')
ORDER BY version DESC, delta_id DESC
LIMIT {{limit:UInt64}}
"""
USER_DELTAS: Final = f"""
SELECT {DELTAS.select_list} FROM profile_deltas
WHERE {_OF_USER}
ORDER BY version
LIMIT 1 BY version, delta_id
"""
USER_EVENTS: Final = f"""
SELECT {EVENTS.select_list} FROM flush_events FINAL
PREWHERE {_OF_USER}
ORDER BY recorded_at DESC, event_id DESC
LIMIT {{limit:UInt64}}
"""
COUNTS: Final = """
SELECT
    (SELECT count() FROM profile_deltas FINAL) AS deltas,
    (SELECT count() FROM flush_events FINAL) AS events,
    (
        SELECT uniqExact(tenant_id, user_id)
        FROM (SELECT tenant_id, user_id FROM profile_deltas UNION ALL SELECT tenant_id, user_id FROM flush_events)
    ) AS users
"""
COUNTS_OF_USER: Final = f"""
SELECT
    (SELECT count() FROM profile_deltas FINAL WHERE {_OF_USER} AND op != 'forget') AS deltas,
    (SELECT count() FROM flush_events FINAL WHERE {_OF_USER} AND outcome != 'forgotten') AS events,
    (SELECT count() FROM tag_hits FINAL WHERE {_OF_USER}) AS tag_hits
"""
# Of each user the last time.
FORGOTTEN: Final = f"""
SELECT {EVENTS.select_list} FROM flush_events FINAL
WHERE tenant_id IN {{tenants:Array(String)}} AND user_id IN {{users:Array(String)}} AND outcome = 'forgotten'
ORDER BY tenant_id, user_id, recorded_at DESC
LIMIT 1 BY tenant_id, user_id
"""
# Likewise of everyone who was ever forgotten.
ALL_FORGETS: Final = f"""
SELECT {DELTAS.select_list} FROM profile_deltas
WHERE op = 'forget'
ORDER BY tenant_id, user_id, version DESC
LIMIT 1 BY tenant_id, user_id
"""
ALL_FORGOTTEN: Final = f"""
SELECT {EVENTS.select_list} FROM flush_events
WHERE outcome = 'forgotten'
ORDER BY tenant_id, user_id, recorded_at DESC
LIMIT 1 BY tenant_id, user_id
"""
PAGE_OF_USERS: Final = f"""
SELECT DISTINCT tenant_id, user_id FROM
(
    SELECT DISTINCT tenant_id, user_id FROM profile_deltas WHERE {_AFTER}
    ORDER BY tenant_id, user_id LIMIT {{users:UInt64}}
    UNION ALL
    SELECT DISTINCT tenant_id, user_id FROM flush_events WHERE {_AFTER}
    ORDER BY tenant_id, user_id LIMIT {{users:UInt64}}
)
ORDER BY tenant_id, user_id
LIMIT {{users:UInt64}}
"""
PAGE_OF_DELTAS: Final = f"""
SELECT {DELTAS.select_list} FROM profile_deltas FINAL
WHERE {_AFTER} AND {_UP_TO}
ORDER BY tenant_id, user_id, version
SETTINGS max_block_size = 8192
"""
# Of each lane the place in the log that was written to last; an offset of an older log says nothing about it.
PAGE_OF_MARKS: Final = f"""
SELECT tenant_id, user_id, lane, log_id, partition, max(last_offset) AS last_offset
FROM flush_events
WHERE {_AFTER} AND {_UP_TO} AND redrive = 0
GROUP BY tenant_id, user_id, lane, log_id, partition
ORDER BY tenant_id, user_id, lane, max(recorded_at) DESC
LIMIT 1 BY tenant_id, user_id, lane
"""
# The newest flushes that were sent again.
PAGE_OF_REDRIVEN: Final = f"""
SELECT {REFS.select_list}
FROM flush_events FINAL
WHERE {_AFTER} AND {_UP_TO} AND redrive > 0
ORDER BY tenant_id, user_id, recorded_at DESC
LIMIT {{per_user:UInt64}} BY tenant_id, user_id
"""
