package gantrymq.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.impl.consumer.ProcessQueue;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/** The producers and consumers of a script, by name. */
final class Clients {
    private static final int SUSPEND_MS = 100;
    private static final long LAST_MS = 10_000;
    private static final int OFTEN_MS = 1_000;
    private static final int IDLE_MS = 5_000;
    private static final int POLL_MS = 20;
    private final String namesrv;
    private final Map<String, DefaultMQProducer> producers = new HashMap<>();
    private final Map<String, DefaultMQPushConsumer> consumers = new HashMap<>();

    Clients(String namesrv) {
        this.namesrv = namesrv;
    }

    DefaultMQProducer producer(String name) {
        return producers.get(name);
    }

    void startProducer(Options options) throws Exception {
        String group = options.need("group");
        DefaultMQProducer producer = options.has("transactional") ? new TransactionMQProducer(group)
            : new DefaultMQProducer(group);
        producer.setEnableTrace(options.has("trace"));
        if (producer instanceof TransactionMQProducer) {
            ((TransactionMQProducer) producer).setTransactionListener(new Decisions(options.text("answers", "commit")));
        }
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName(options.need("name"));
        producer.start();
        // The broker knows a client from its heartbeat, and the client the broker from a route.
        MQClientInstance client = producer.getDefaultMQProducerImpl().getMqClientFactory();
        client.updateTopicRouteInfoFromNameServer(options.need("topic"));
        client.sendHeartbeatToAllBrokerWithLock();
        producers.put(options.need("name"), producer);
    }

    void startConsumer(Options options) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(options.need("group"));
        consumer.setEnableTrace(options.has("trace"));
        String name = options.need("name");
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(name);
        consumer.setPollNameServerInterval(OFTEN_MS);
        consumer.setHeartbeatBrokerInterval(OFTEN_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setSuspendCurrentQueueTimeMillis(SUSPEND_MS);
        consumer.setAwaitTerminationMillisWhenShutdown(LAST_MS); // else the message being consumed is not committed
        consumer.setMaxReconsumeTimes(options.number("max-reconsume", -1));
        consumer.setMessageModel(MessageModel.valueOf(options.text("model", "clustering").toUpperCase()));
        consumer.setClientRebalance(!options.has("pop"));
        consumer.subscribe(options.need("topic"), options.text("sub", "*"));
        int fail = options.number("fail", 0);
        if (options.has("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                take(name, messages, options) < fail
                    ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT : ConsumeOrderlyStatus.SUCCESS);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                context.setDelayLevelWhenNextConsume(options.number("next-level", 0));
                return take(name, messages, options) < fail
                    ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        consumers.put(name, consumer);
    }

    /** Let the client {@code name} leave, or all of them where it is the empty text: consumers first, which may answer. */
    void stop(String name) throws InterruptedException {
        for (String each : new ArrayList<>(consumers.keySet())) {
            if (name.isEmpty() || each.equals(name)) {
                DefaultMQPushConsumer consumer = consumers.remove(each);
                awaitIdle(consumer);
                consumer.shutdown();
            }
        }
        for (String each : new ArrayList<>(producers.keySet())) {
            if (name.isEmpty() || each.equals(name)) {
                producers.remove(each).shutdown();
            }
        }
    }

    /** What is in the broker's log may not be answered yet; a consumer that leaves before that would not count it. */
    private static void awaitIdle(DefaultMQPushConsumer consumer) throws InterruptedException {
        long end = System.currentTimeMillis() + IDLE_MS;
        while (System.currentTimeMillis() < end) {
            boolean idle = true;
            for (ProcessQueue queue :
                consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().values()) {
                idle &= queue.getMsgCount().get() == 0;
            }
            if (idle) {
                return;
            }
            Thread.sleep(POLL_MS);
        }
    }

    /** Print and answer; returns how often the first of them was delivered before. The client hands over one a time. */
    private int take(String name, List<MessageExt> messages, Options options) {
        for (MessageExt message : messages) {
            Map<String, Object> line = Events.fields("received", "name", name, "topic", message.getTopic(),
                "queueId", message.getQueueId(), "queueOffset", message.getQueueOffset(), "tags", message.getTags(),
                "keys", message.getKeys(), "flag", message.getFlag(), "sysFlag", message.getSysFlag(),
                "reconsumeTimes", message.getReconsumeTimes(), "properties", message.getProperties());
            Events.addBody(line, message.getBody());
            Events.print(line);
            if (options.has("answer-from")) {
                answer(producers.get(options.need("answer-from")), message);
            }
        }
        return messages.get(0).getReconsumeTimes();
    }

    private static void answer(DefaultMQProducer producer, MessageExt question) {
        try {
            String text = "answer-to-" + new String(question.getBody(), StandardCharsets.UTF_8);
            Message reply = MessageUtil.createReplyMessage(question, text.getBytes(StandardCharsets.UTF_8));
            producer.send(reply);
            Events.print("answered", "body", text);
        } catch (Exception e) {
            Errors.print(-1, e);
        }
    }

    /** Decides by what the sender of a transaction wished, and when asked by the next of its answers. */
    private static final class Decisions implements TransactionListener {
        private final String[] answers;
        private final Map<String, Integer> times = new HashMap<>();

        Decisions(String answers) {
            this.answers = answers.split(",");
        }

        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object wish) {
            return state((String) wish);
        }

        @Override
        public synchronized LocalTransactionState checkLocalTransaction(MessageExt message) {
            String body = new String(message.getBody(), StandardCharsets.UTF_8);
            int before = times.merge(body, 1, Integer::sum) - 1;
            String answer = answers[before % answers.length];
            Events.print("asked", "body", body, "answer", answer, "topic", message.getTopic(),
                "properties", message.getProperties());
            return state(answer);
        }

        private static LocalTransactionState state(String word) {
            return word.equals("commit") ? LocalTransactionState.COMMIT_MESSAGE
                : word.equals("rollback") ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.UNKNOW;
        }
    }
}
