#!/usr/bin/env python3
"""The daily table of tokens by duckdb: the peer that is a general tool. Used by cost.py; prints JSON.

    PYTHONPATH=bench/out/peers/python bench/cost_duckdb.py DIR
"""
import json
import sys

import duckdb

# Only the members that are needed are named, so the rest of a line is skipped and not kept.
QUERY = """
WITH lines AS (
    SELECT message.id AS id, requestId AS request, message.model AS model, timestamp AS time, message.usage AS usage
    FROM read_json(?, format = 'newline_delimited', ignore_errors = true, maximum_object_size = 67108864, columns = {
        type: 'VARCHAR', timestamp: 'VARCHAR', requestId: 'VARCHAR',
        message: 'STRUCT(id VARCHAR, model VARCHAR, usage STRUCT(
            input_tokens BIGINT, output_tokens BIGINT,
            cache_read_input_tokens BIGINT, cache_creation_input_tokens BIGINT,
            cache_creation STRUCT(ephemeral_5m_input_tokens BIGINT, ephemeral_1h_input_tokens BIGINT)))'})
    WHERE type = 'assistant' AND message.usage IS NOT NULL AND message.model <> '<synthetic>'),
responses AS (
    SELECT min(time)[:10] AS day, any_value(model) AS model, arg_max(usage, usage.output_tokens) AS usage
    FROM lines GROUP BY id, request)
SELECT day, model, count(*), sum(usage.input_tokens), sum(usage.output_tokens),
    sum(CASE WHEN usage.cache_creation IS NULL THEN usage.cache_creation_input_tokens
        ELSE usage.cache_creation.ephemeral_5m_input_tokens END),
    sum(coalesce(usage.cache_creation.ephemeral_1h_input_tokens, 0)), sum(usage.cache_read_input_tokens)
FROM responses GROUP BY day, model ORDER BY day, model
"""
NAMES = ("day", "model", "requests", "input", "output", "cache_5m", "cache_1h", "cache_read")


def main():
    found = duckdb.connect().execute(QUERY, [sys.argv[1] + "/projects/**/*.jsonl"]).fetchall()
    rows = [dict(zip(NAMES, (*row[:2], *map(int, row[2:])))) for row in found]
    print(json.dumps({"version": duckdb.__version__, "rows": rows}))


if __name__ == "__main__":
    main()
