"""Names of metrics known to operators of RocketMQ, so that we do not introduce a third spelling.

EXPORTER is every name of rocketmq-exporter; ROCKETMQ_5 those of RocketMQ 5's own exporter that we use if
rocketmq-exporter has none.

Source: apache/rocketmq-exporter src/.../collector/RMQMetricsCollector.java; apache/rocketmq
broker/.../metrics/BrokerMetricsConstant.java, store/.../metrics/DefaultStoreMetricsConstant.java.
"""

_OF_THE_RUNTIME = """
    commitlog_disk_ratio commitlog_maxoffset commitlog_minoffset commitlogdir_capacity_free
    commitlogdir_capacity_total consumequeue_disk_ratio dispatch_behind_bytes dispatch_maxbuffer
    earliest_message_timestamp getfound_tps10 getfound_tps60 getfound_tps600 getmessage_entire_time_max
    getmiss_tps10 getmiss_tps60 getmiss_tps600 gettotal_tps10 gettotal_tps60 gettotal_tps600 gettransfered_tps10
    gettransfered_tps60 gettransfered_tps600 msg_gettotal_today_now msg_gettotal_todaymorning
    msg_gettotal_yesterdaymorning msg_put_total_today_now msg_puttotal_todaymorning
    msg_puttotal_yesterdaymorning pagecache_lock_time_mills pmdt_0ms pmdt_0to10ms pmdt_100to200ms pmdt_10stomore
    pmdt_10to50ms pmdt_1to2s pmdt_200to500ms pmdt_2to3s pmdt_3to4s pmdt_4to5s pmdt_500to1s pmdt_50to100ms
    pmdt_5to10s pull_threadpoolqueue_capacity pull_threadpoolqueue_headwait_timemills pull_threadpoolqueue_size
    put_latency_99 put_latency_999 put_message_average_size put_message_size_total put_tps10 put_tps60
    put_tps600 putmessage_entire_time_max putmessage_times_total query_threadpool_queue_capacity
    query_threadpoolqueue_headwait_timemills query_threadpoolqueue_size remain_howmanydata_toflush
    remain_transientstore_buffer_numbs send_threadpool_queue_size send_threadpoolqueue_capacity
    send_threadpoolqueue_headwait_timemills start_accept_sendrequest_time
"""

_OTHERS = """
    broker_commitlog_diff broker_qps broker_tps client_consume_fail_msg_count client_consume_fail_msg_tps
    client_consume_ok_msg_tps client_consume_rt client_consumer_pull_rt client_consumer_pull_tps
    consumer_message_size consumer_offset consumer_tps group_consume_total_offset group_consume_tps group_count
    group_diff group_dlqdiff group_get_latency_by_storetime group_retrydiff producer_count producer_message_size
    producer_offset producer_tps send_back_nums topic_dlq_offset topic_retry_offset
"""

EXPORTER = frozenset(
    [f"rocketmq_brokeruntime_{name}" for name in _OF_THE_RUNTIME.split()]
    + [f"rocketmq_{name}" for name in _OTHERS.split()]
)

ROCKETMQ_5 = frozenset(
    (
        "rocketmq_broker_permission",
        "rocketmq_topic_number",
        "rocketmq_consumer_group_number",
        "rocketmq_messages_in_total",
        "rocketmq_throughput_in_total",
        "rocketmq_messages_out_total",
        "rocketmq_throughput_out_total",
        "rocketmq_producer_connections",
        "rocketmq_consumer_lag_messages",
        "rocketmq_consumer_lag_latency",
        "rocketmq_consumer_inflight_messages",
        "rocketmq_send_to_dlq_messages_total",
    )
)

ROCKETMQ_5_OF_PLUGINS = frozenset(  # exposed by other plugins if they are installed
    (
        "rocketmq_delay_message_latency",
        "rocketmq_half_messages",
        "rocketmq_timer_dequeue_lag",
        "rocketmq_timer_dequeue_latency",
        "rocketmq_timer_dequeue_total",
        "rocketmq_timer_enqueue_lag",
        "rocketmq_timer_enqueue_latency",
        "rocketmq_timer_enqueue_total",
        "rocketmq_timing_messages",
    )
)
