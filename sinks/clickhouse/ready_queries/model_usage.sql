-- Model calls, tokens and cost by day, tenant, stage, model and pipeline version.
-- tenant = *: only this tenant; * means all
-- since = 1970-01-01: from this time on, by when it was recorded
-- until = 2200-01-01: before this time
-- prompt_price = 0: of a million prompt tokens
-- completion_price = 0: of a million completion tokens
SELECT
    toDate(recorded_at) AS day,
    tenant_id,
    stage,
    model,
    pipeline_version,
    count() AS calls,
    countIf(outcome != 'ok') AS failed,
    sum(model_calls.prompt_tokens) AS prompt_tokens,
    sum(model_calls.completion_tokens) AS completion_tokens,
    round(
        sum(model_calls.prompt_tokens) / 1e6 * {prompt_price:Float64}
        + sum(model_calls.completion_tokens) / 1e6 * {completion_price:Float64}, 6) AS cost
FROM model_calls FINAL
WHERE ({tenant:String} = '*' OR tenant_id = {tenant:String})
    AND recorded_at >= parseDateTime64BestEffort({since:String}, 6, 'UTC')
    AND recorded_at < parseDateTime64BestEffort({until:String}, 6, 'UTC')
GROUP BY day, tenant_id, stage, model, pipeline_version
ORDER BY day, tenant_id, stage, model, pipeline_version
