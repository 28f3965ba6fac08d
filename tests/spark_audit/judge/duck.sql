-- The same judgement by joins, on the same Parquet. The test makes the tables `limits` (one row),
-- `ranges`, `earlier`, `workers`, `forgotten` and `carried` of the manifest, and the views `records`,
-- `requests` and `runs`.
WITH
places AS (
    SELECT * FROM ranges WHERE kind IN ('request', 'retry')
),
sent AS (
    SELECT
        request_id,
        count(*) AS sent,
        bool_or(in_window) AS in_window,
        bool_or(is_malformed) AS is_malformed,
        min(payload_sha256) AS least,
        max(payload_sha256) AS greatest,
        min(attempt) AS least_attempt
    FROM records WHERE kind = 'request' GROUP BY request_id
),
asked AS (
    SELECT DISTINCT ON (request_id)
        request_id, reopens, attempt AS asked_attempt, topic AS asked_topic
    FROM records WHERE kind = 'request' AND is_committed AND reopens IS NOT NULL
    ORDER BY request_id, reopens DESC, attempt DESC, topic DESC
),
delivered AS (
    SELECT
        request_id,
        bool_and(is_committed) AS is_delivered,
        max(coalesce(
            -- The clock that said both was ahead.
            deadline_at - CASE WHEN deadline_at >= timestamp_ms
                THEN greatest(timestamp_ms - arrived_by_ms, 0) ELSE 0 END,
            CASE
                WHEN timestamp_ms >= 0 THEN least(timestamp_ms, arrived_by_ms) ELSE since_ms
            END + deadline_ms
        )) AS deadline_at
    FROM records, limits WHERE kind IN ('request', 'retry') GROUP BY request_id
),
letters AS (
    SELECT
        request_id,
        count(*) AS letters,
        count(*) FILTER (coalesce(reason, '') <> 'PAYLOAD_MISMATCH') AS accusing,
        bool_or(
            in_window AND (
                original_offset >= places.start_offset AND original_offset < places.end_offset
                OR original_offset >= places.log_end
            )
        ) AS is_placed,
        bool_or(
            in_window AND arrived_by_ms > before_ms AND (
                original_offset < places.day_first OR EXISTS (
                    SELECT 1 FROM earlier
                    WHERE earlier.topic = original_topic
                        AND earlier.partition = original_partition
                        AND original_offset >= first AND original_offset < after
                )
            )
        ) AS is_late
    FROM limits, records
    LEFT JOIN places
        ON original_topic = places.topic AND original_partition = places.partition
    WHERE records.kind = 'dlq' GROUP BY request_id
),
placed AS (
    SELECT
        requests.*,
        requests.offset >= coalesce(places.start_offset, 0)
        AND (
            requests.offset < coalesce(places.end_offset, 9223372036854775807)
            OR requests.offset >= places.log_end
        ) AS is_staged,
        places.topic IS NOT NULL
        AND requests.offset < coalesce(places.log_end, 9223372036854775807) AS has_place,
        coalesce(requests.offset < places.day_first, false) AS is_earlier,
        EXISTS (
            SELECT 1 FROM earlier
            WHERE earlier.topic = requests.topic
                AND earlier.partition = requests.partition
                AND requests.offset >= first AND requests.offset < after
        ) AS is_between
    FROM requests LEFT JOIN places USING (topic, partition)
),
journal AS (
    SELECT
        placed.*,
        is_earlier OR is_between AS is_reached,
        (is_earlier OR is_between) AND generation > 1
        AND claimed_at >= reran_since_ms AND claimed_at < reran_to_ms AS has_run_again
    FROM limits, placed
),
-- Every run: the history's, and the row as the latest.
ran AS (
    SELECT
        runs.request_id,
        runs.generation,
        outcome,
        runs.effect_at,
        allowed_by,
        true AS is_past,
        coalesce(runs.effect_kind, requests.effect_kind, '') AS kind
    FROM runs LEFT JOIN requests USING (request_id)
    UNION ALL
    SELECT request_id, generation, state, effect_at, NULL, false, coalesce(effect_kind, '')
    FROM requests WHERE claimed_at IS NOT NULL
),
judged_runs AS (
    SELECT
        *,
        outcome = 'SUCCEEDED' AND coalesce(allowed_by, '') NOT IN ('RAISED', 'SAME_KEY') AS succeeded,
        outcome NOT IN ('SUCCEEDED', 'FAILED', 'RETRYING', 'EXPIRED', 'SKIPPED')
        AND effect_at IS NOT NULL
        AND coalesce(allowed_by, '') NOT IN ('RAISED', 'SAME_KEY', 'VOIDED', 'GRANTED')
        AND kind <> 'transactional' AS entered
    FROM ran
),
of_generation AS (
    SELECT
        request_id,
        generation,
        count(*) FILTER (succeeded) AS succeeded,
        count(*) FILTER (entered AND NOT (is_past AND outcome = 'IN_DOUBT')) AS entered,
        count(*) FILTER (entered AND is_past AND outcome = 'IN_DOUBT') AS doubts,
        count(*) AS entries
    FROM judged_runs GROUP BY request_id, generation
),
effects AS (
    SELECT
        request_id,
        sum(succeeded) AS succeeded,
        -- A doubt counts when nothing else is told of its generation.
        sum(entered + CASE WHEN doubts > 0 AND doubts = entries THEN 1 ELSE 0 END) AS entered
    FROM of_generation GROUP BY request_id
),
history AS (
    SELECT
        request_id,
        bool_or(outcome IN ('FAILED', 'IN_DOUBT', 'EXPIRED')) AS has_failed,
        bool_or(
            CASE
                WHEN start_offset IS NULL OR runs.offset >= log_end
                    THEN claimed_at >= since_ms AND claimed_at < frozen_at_ms
                ELSE runs.offset >= start_offset AND runs.offset < end_offset
                    AND claimed_at >= since_ms - grace_ms
            END
        ) AS is_placed
    FROM limits, runs LEFT JOIN places USING (topic, partition) GROUP BY request_id
),
pruned AS (
    SELECT request_id FROM limits, records JOIN forgotten USING (topic)
    WHERE kind = 'request' AND (
        coalesce(
            records.deadline_at,
            CASE WHEN timestamp_ms >= 0 THEN least(timestamp_ms, arrived_by_ms) ELSE since_ms END
        ) <= forgotten.deadline_at
        OR records.deadline_at IS NULL AND records.partition = forgotten.partition
        AND records.offset < next_offset
    )
),
ids AS (
    SELECT request_id FROM records UNION SELECT request_id FROM requests
    UNION SELECT request_id FROM runs
),
known AS (
    SELECT
        ids.request_id,
        coalesce(sent.sent, 0) AS sent,
        coalesce(letters.letters, 0) AS letters,
        coalesce(letters.accusing, 0) AS accusing,
        journal.request_id IS NOT NULL AS has_row,
        journal.*  EXCLUDE (request_id, deadline_at),
        journal.deadline_at AS row_deadline_at,
        sent.* EXCLUDE (request_id, sent),
        asked.* EXCLUDE (request_id),
        delivered.is_delivered,
        delivered.deadline_at,
        delivered.request_id IS NOT NULL OR letters.request_id IS NOT NULL
        OR EXISTS (
            FROM records
            WHERE records.request_id = ids.request_id AND records.kind <> 'outcome'
        ) AS has_record,
        coalesce(effects.succeeded, 0) AS succeeded,
        coalesce(effects.entered, 0) AS entered,
        coalesce(history.has_failed, false) AS has_failed,
        carried.request_id IS NOT NULL AS is_carried,
        carried.request_id IS NOT NULL OR coalesce(sent.in_window, false) OR (sent.sent IS NULL AND (
            coalesce(letters.is_placed, false) OR coalesce(history.is_placed, false)
            OR coalesce(
                journal.is_staged
                AND (
                    (
                        journal.has_place
                        AND coalesce(journal.claimed_at, journal.finished_at) >= since_ms - grace_ms
                    )
                    OR (
                        coalesce(journal.claimed_at, journal.finished_at) >= since_ms
                        AND coalesce(journal.claimed_at, journal.finished_at) < frozen_at_ms
                    )
                ),
                false
            )
        ))
        OR coalesce(journal.has_run_again, false)
        OR (
            coalesce(letters.is_late, false) AND letters.accusing > 0
            AND NOT coalesce(history.has_failed, false)
            AND journal.state NOT IN ('FAILED', 'IN_DOUBT', 'EXPIRED')
        ) AS is_judged,
        workers.lease_until,
        limits.*
    FROM limits, ids
    LEFT JOIN sent USING (request_id)
    LEFT JOIN delivered USING (request_id)
    LEFT JOIN asked USING (request_id)
    LEFT JOIN letters USING (request_id)
    LEFT JOIN journal USING (request_id)
    LEFT JOIN effects USING (request_id)
    LEFT JOIN history USING (request_id)
    LEFT JOIN carried USING (request_id)
    LEFT JOIN workers ON workers.owner = journal.owner
)
SELECT
    request_id,
    sent > 0 AND is_delivered AND NOT has_row AND deadline_at + grace_ms <= frozen_at_ms
    AND request_id NOT IN (FROM pruned) AS lost,
    sent > 0 AND is_delivered AND NOT has_row AND deadline_at + grace_ms <= frozen_at_ms
    AND request_id IN (FROM pruned) AS forgotten,
    CASE
        WHEN has_row THEN row_deadline_at + grace_ms <= frozen_at_ms AND (
            state = 'RETRYING'
            OR (state = 'FAILED' AND resend AND (
                NOT is_delivered
                OR (
                    coalesce(reopens >= generation AND asked_attempt > attempt, false)
                    AND asked_topic = topic AND NOT coalesce(
                        least <> greatest OR payload_sha256 <> least OR payload_sha256 <> greatest,
                        false
                    )
                )
            ))
        )
        ELSE NOT is_delivered AND deadline_at + grace_ms <= frozen_at_ms
    END AS overdue,
    succeeded + entered > 1 AS ran_twice,
    state = 'IN_DOUBT' AS in_doubt,
    state = 'CLAIMED' AND (
        coalesce(lease_until, 0) + grace_ms < journal_read_at_ms
        OR row_deadline_at + grace_ms <= frozen_at_ms
    ) AS stuck,
    has_row AND NOT has_record AND is_staged AND NOT (
        state = 'FAILED' AND claimed_at IS NULL AND (
            starts_with(request_id, concat(topic, '-', partition, '-', "offset", '-'))
            OR regexp_full_match(request_id, 'sha256-[0-9a-f]{64}')
        )
    ) AS orphan,
    least <> greatest OR payload_sha256 <> least OR payload_sha256 <> greatest AS payload_mismatch,
    sent > 1 AS resent,
    state = 'FAILED' AND NOT resend AND coalesce(code, '') <> 'PAYLOAD_GONE' AND letters = 0
    AND topic IN (FROM lettered) AND finished_at + grace_ms < frozen_at_ms
    AND NOT (
        NOT is_carried AND (
            is_earlier
            AND coalesce(dead_letter_at < coalesce(nullif(before_ms, 0), since_ms), false)
            OR is_reached AND coalesce(dead_letter_at < since_ms, false)
        )
    ) AS failed_without_dead_letter,
    accusing > 0 AND NOT has_failed AND coalesce(state, '') NOT IN ('FAILED', 'IN_DOUBT', 'EXPIRED')
    AS dead_letter_without_failure,
    is_malformed AS malformed,
    state IN ('SUCCEEDED', 'FAILED') AND finished_at > row_deadline_at AS late,
    CASE WHEN sent > 1 THEN attempt > least_attempt END AS resend_needed
FROM known WHERE is_judged ORDER BY request_id
