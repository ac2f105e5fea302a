package gantrymq.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.AckCallback;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PopCallback;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ChangeInvisibleTimeRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;

/**
 * Pops by the official client, command by command: one on each line of standard input, its words separated by tabs, one
 * line of JSON for each answer. Needs client 5.
 */
public final class Pops {
    private static final long TIMEOUT_MS = 5_000;
    private static final String BROKER_NAME = "broker-a";
    private final MQClientAPIImpl api;
    private final String namesrv;

    private Pops(String namesrv) throws Exception {
        this.namesrv = namesrv;
        DefaultMQProducer producer = new DefaultMQProducer("pops", Account.hook());
        producer.setNamesrvAddr(namesrv);
        producer.start();
        api = producer.getDefaultMQProducerImpl().getMqClientFactory().getMQClientAPIImpl();
    }

    public static void main(String[] args) throws Exception {
        Events.claimOutput();
        Leaving.quickly();
        Pops pops = new Pops(args[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                pops.obey(line.split("\t", -1));
            } catch (Exception e) {
                Events.print("problem", "message", String.valueOf(e));
            }
        }
        System.exit(0);
    }

    private void obey(String[] words) throws Exception {
        switch (words[0]) {
            case "mode":
                api.setMessageRequestMode(words[1], words[2], words[3], MessageRequestMode.valueOf(words[4]), 0,
                    TIMEOUT_MS);
                Events.print("done", "what", "mode");
                break;
            case "pop":
                pop(words);
                break;
            case "ack":
                print(acknowledged(words[1], words[2], words[3], words[4]));
                break;
            case "batch":
                CompletableFuture<AckResult> acked = new CompletableFuture<>();
                api.batchAckMessageAsync(words[1], TIMEOUT_MS, callback(acked), words[2], words[3],
                    Arrays.asList(Arrays.copyOfRange(words, 4, words.length)));
                print(acked);
                break;
            case "change":
                change(words);
                break;
            case "push":
                push(words[1], words[2], words[3]);
                break;
            case "drain":
                drain(words);
                break;
            default:
                throw new IllegalArgumentException("no such command: " + words[0]);
        }
    }

    /** pop BROKER TOPIC GROUP MOST INVISIBLE_MS POLL_MS */
    private void pop(String[] words) throws Exception {
        PopResult result = popped(words[1], words[2], words[3], Integer.parseInt(words[4]), Long.parseLong(words[5]),
            Long.parseLong(words[6]));
        List<Map<String, Object>> messages = new ArrayList<>();
        if (result.getMsgFoundList() != null) {
            for (MessageExt message : result.getMsgFoundList()) {
                messages.add(Events.fields("message", "body", new String(message.getBody(), StandardCharsets.UTF_8),
                    "handle", message.getProperty(MessageConst.PROPERTY_POP_CK), "topic", message.getTopic(),
                    "reconsumeTimes", message.getReconsumeTimes()));
            }
        }
        Events.print("popped", "status", String.valueOf(result.getPopStatus()), "messages", messages);
    }

    private PopResult popped(String broker, String topic, String group, int most, long invisibleMs, long pollMs)
        throws Exception {
        PopMessageRequestHeader header = new PopMessageRequestHeader();
        header.setTopic(topic);
        header.setConsumerGroup(group);
        header.setQueueId(-1);
        header.setMaxMsgNums(most);
        header.setInvisibleTime(invisibleMs);
        header.setPollTime(pollMs);
        header.setBornTime(System.currentTimeMillis());
        header.setInitMode(0);
        header.setExpType("TAG");
        header.setExp("*");
        header.setOrder(false);
        CompletableFuture<PopResult> future = new CompletableFuture<>();
        api.popMessageAsync(BROKER_NAME, broker, header, pollMs + TIMEOUT_MS, new PopCallback() {
            @Override
            public void onSuccess(PopResult result) {
                future.complete(result);
            }

            @Override
            public void onException(Throwable e) {
                future.completeExceptionally(e);
            }
        });
        return future.get(pollMs + TIMEOUT_MS, TimeUnit.MILLISECONDS);
    }

    /** ack BROKER TOPIC GROUP HANDLE */
    private CompletableFuture<AckResult> acknowledged(String broker, String topic, String group, String text)
        throws Exception {
        String[] handle = ExtraInfoUtil.split(text);
        AckMessageRequestHeader header = new AckMessageRequestHeader();
        header.setTopic(ExtraInfoUtil.getRealTopic(handle, topic, group));
        header.setConsumerGroup(group);
        header.setQueueId(ExtraInfoUtil.getQueueId(handle));
        header.setOffset(ExtraInfoUtil.getQueueOffset(handle));
        header.setExtraInfo(text);
        CompletableFuture<AckResult> future = new CompletableFuture<>();
        api.ackMessageAsync(broker, TIMEOUT_MS, callback(future), header);
        return future;
    }

    /** change BROKER TOPIC GROUP HANDLE INVISIBLE_MS */
    private void change(String[] words) throws Exception {
        String[] handle = ExtraInfoUtil.split(words[4]);
        ChangeInvisibleTimeRequestHeader header = new ChangeInvisibleTimeRequestHeader();
        header.setTopic(ExtraInfoUtil.getRealTopic(handle, words[2], words[3]));
        header.setConsumerGroup(words[3]);
        header.setQueueId(ExtraInfoUtil.getQueueId(handle));
        header.setOffset(ExtraInfoUtil.getQueueOffset(handle));
        header.setExtraInfo(words[4]);
        header.setInvisibleTime(Long.parseLong(words[5]));
        CompletableFuture<AckResult> future = new CompletableFuture<>();
        api.changeInvisibleTimeAsync(BROKER_NAME, words[1], header, TIMEOUT_MS, callback(future));
        print(future);
    }

    private static AckCallback callback(CompletableFuture<AckResult> future) {
        return new AckCallback() {
            @Override
            public void onSuccess(AckResult result) {
                future.complete(result);
            }

            @Override
            public void onException(Throwable e) {
                future.completeExceptionally(e);
            }
        };
    }

    private static void print(CompletableFuture<AckResult> future) throws Exception {
        AckResult result = future.get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
        Events.print("answered", "status", String.valueOf(result.getStatus()), "handle", result.getExtraInfo());
    }

    private DefaultMQPushConsumer consumer(String topic, String group) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group, Account.hook(), new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(group);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setClientRebalance(false);
        consumer.setPollNameServerInterval(500);
        consumer.subscribe(topic, "*");
        return consumer;
    }

    /** A push consumer in pop mode; a message whose body begins with *failing* fails the first time. */
    private void push(String topic, String group, String failing) throws Exception {
        DefaultMQPushConsumer consumer = consumer(topic, group);
        consumer.setPopInvisibleTime(5_000);
        Set<String> failed = ConcurrentHashMap.newKeySet();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                Received.print(message);
                String body = new String(message.getBody(), StandardCharsets.UTF_8);
                if (body.startsWith(failing) && failed.add(body)) {
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Events.print("started", "clientId", consumer.buildMQClientId());
    }

    /** Threads that pop 32 messages and acknowledge each, until *count* are popped; prints the rate behind the warm-up. */
    private void drain(String[] words) throws Exception {
        int threads = Integer.parseInt(words[4]);
        long count = Long.parseLong(words[5]);
        long warmup = Long.parseLong(words[6]);
        AtomicLong seen = new AtomicLong();
        AtomicLong begin = new AtomicLong();
        AtomicLong failed = new AtomicLong();
        CompletableFuture<Long> end = new CompletableFuture<>();
        for (int i = 0; i < threads; i++) {
            Thread thread = new Thread(() -> {
                while (!end.isDone()) {
                    try {
                        List<MessageExt> messages = popped(words[1], words[2], words[3], 32, 60_000, 1_000).getMsgFoundList();
                        if (messages == null) {
                            continue;
                        }
                        List<CompletableFuture<AckResult>> acks = new ArrayList<>();
                        for (MessageExt message : messages) {
                            acks.add(acknowledged(words[1], words[2], words[3], message.getProperty(MessageConst.PROPERTY_POP_CK)));
                        }
                        for (CompletableFuture<AckResult> ack : acks) {
                            ack.get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
                        }
                        long after = seen.addAndGet(messages.size());
                        long before = after - messages.size();
                        if (before <= warmup && after > warmup) {
                            begin.set(System.nanoTime());
                        }
                        if (before < count && after >= count) {
                            end.complete(System.nanoTime());
                        }
                    } catch (Exception e) {
                        failed.incrementAndGet();
                    }
                }
            });
            thread.setDaemon(true);
            thread.start();
        }
        double seconds = (end.get(600, TimeUnit.SECONDS) - begin.get()) / 1e9;
        Events.print("drained", "threads", threads, "messages", seen.get(), "failed", failed.get(), "seconds", seconds,
            "messagesPerSecond", (count - warmup) / seconds);
    }
}
