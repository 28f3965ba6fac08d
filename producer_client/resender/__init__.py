"""The resender: requests that are lost, overdue or silent are sent again.

`resender` takes the due requests (`feedback.redis.deadlines`), `resend_plan` decides by
`producer_client.sending.resending`, `topic_lanes` separate the topics, `resends` sends one batch
again with the payloads that `payloads` finds. `lost_scan` looks for dead workers' requests in
between; `record_search` looks in Kafka for those that a Redis brought back.
"""
