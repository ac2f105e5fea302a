package gantrymq.interop;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** Checks the official Java client for gRPC: {@code Sdk HOST:PORT PREFIX}. See README.md for the names. */
public final class Sdk {
    private static final Duration AWAIT = Duration.ofSeconds(5);
    private static final Duration INVISIBLE = Duration.ofSeconds(10);
    private static final long LIMIT_MS = 25_000;
    private static final Pattern CODE = Pattern.compile("response-code=(\\d+)");
    private static final String[] TYPES = {"Normal", "Filter", "Fifo", "Delay", "Transaction", "Push", "Ordered"};

    private final ClientServiceProvider provider = ClientServiceProvider.loadService();
    private final ClientConfiguration configuration;
    private final String prefix;
    private final Collection<String> asked = Collections.synchronizedList(new ArrayList<>());
    private final List<String> pushed = Collections.synchronizedList(new ArrayList<>());
    private final List<String> ordered = Collections.synchronizedList(new ArrayList<>());
    private final Producer producer;
    private final SimpleConsumer normal;
    private final SimpleConsumer fifo;
    private final SimpleConsumer delay;
    private final SimpleConsumer transaction;
    private final SimpleConsumer tag;
    private final SimpleConsumer sql;
    private long due;
    private long lastNormal;

    private interface Check {
        Map<String, Object> run() throws Exception;
    }

    private interface Action {
        Object run() throws Exception;
    }

    private Sdk(String endpoint, String prefix) throws Exception {
        this.prefix = prefix;
        configuration = ClientConfiguration.newBuilder().setEndpoints(endpoint).build();
        String[] topics = Arrays.stream(TYPES).map(type -> prefix + type).toArray(String[]::new);
        producer = provider.newProducerBuilder().setClientConfiguration(configuration).setTopics(topics)
            .setTransactionChecker(this::decide).build();
        FilterExpression all = FilterExpression.SUB_ALL;
        normal = simple(prefix + "Normal", "normal", all);
        fifo = simple(prefix + "Fifo", "fifo", all);
        delay = simple(prefix + "Delay", "delay", all);
        transaction = simple(prefix + "Transaction", "transaction", all);
        tag = simple(prefix + "Filter", "tag", new FilterExpression("A || C", FilterExpressionType.TAG));
        sql = simple(prefix + "Filter", "sql", new FilterExpression("number > 1", FilterExpressionType.SQL92));
        push("Push", pushed);
        push("Ordered", ordered);
    }

    /** Runs all checks. */
    public static void main(String[] words) throws Exception {
        Events.claimOutput();
        new Sdk(words[0], words[1]).runAll();
        Events.print("done");
        System.exit(0); // without waiting for the end of open receives
    }

    private void runAll() throws Exception {
        sendEarly();
        check("recall", this::checkRecall);
        check("delay", this::checkDelay);
        check("normal", this::checkNormal);
        check("invisible", this::checkInvisible);
        check("fifo", this::checkFifo);
        check("tag", this::checkTag);
        check("sql92", () -> equal(sorted(gather(sql, 2)), List.of("C", "D")));
        refused("unknown_topic", () -> producer.send(message(prefix + "Unknown", "x").build()));
        refused("wrong_type", () -> producer.send(message(prefix + "Normal", "x").setMessageGroup("g").build()));
        refused("illegal_name", () -> producer.send(message("bad topic!", "x").build()));
        refused("system_topic", () -> producer.send(message("RMQ_SYS_TRANS_HALF_TOPIC", "x").build()));
        check("transaction", this::checkTransaction);
        check("push", this::checkPush);
        check("ordered", this::checkOrdered);
        check("dead_letters", () -> checkDead("push"));
        check("ordered_dead_letters", () -> checkDead("ordered"));
        check("nothing_more", this::checkNothingMore);
    }

    private SimpleConsumer simple(String topic, String group, FilterExpression expression) throws ClientException {
        return provider.newSimpleConsumerBuilder().setClientConfiguration(configuration).setAwaitDuration(AWAIT)
            .setConsumerGroup(prefix + group).setSubscriptionExpressions(Collections.singletonMap(topic, expression))
            .build();
    }

    /** Starts a push consumer that fails "again" the first time and "dead" always. */
    private void push(String topic, List<String> seen) throws ClientException {
        provider.newPushConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(prefix + topic.toLowerCase())
            .setSubscriptionExpressions(Collections.singletonMap(prefix + topic, FilterExpression.SUB_ALL))
            .setMessageListener(view -> {
                String body = body(view);
                boolean first = seen.stream().noneMatch(each -> each.startsWith(body + " "));
                seen.add(body + " " + view.getDeliveryAttempt());
                boolean failing = body.equals("dead") || body.equals("again") && first;
                return failing ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
            }).build();
    }

    private TransactionResolution decide(MessageView view) {
        String body = body(view);
        asked.add(body);
        return body.contains("rollback") ? TransactionResolution.ROLLBACK : TransactionResolution.COMMIT;
    }

    /** Sends what takes its time to arrive. */
    private void sendEarly() throws Exception {
        for (String body : List.of("one", "two", "again", "dead", "three")) {
            producer.send(message(prefix + "Push", body).build());
        }
        for (String body : List.of("one", "dead", "two", "again", "three")) {
            producer.send(message(prefix + "Ordered", body).setMessageGroup("g").build());
        }
        for (String outcome : List.of("commit", "rollback", "ask commit", "ask rollback")) {
            Transaction begun = producer.beginTransaction();
            producer.send(message(prefix + "Transaction", outcome).build(), begun);
            if (outcome.equals("commit")) {
                begun.commit();
            } else if (outcome.equals("rollback")) {
                begun.rollback();
            }
        }
        due = System.currentTimeMillis() + 4_000;
        producer.send(message(prefix + "Delay", "delayed").setDeliveryTimestamp(due).build());
    }

    /** Recalls a message that would arrive with that of {@link #checkDelay}. */
    private Map<String, Object> checkRecall() throws Exception {
        SendReceipt receipt = producer.send(message(prefix + "Delay", "recalled").setDeliveryTimestamp(due).build());
        return equal(producer.recallMessage(prefix + "Delay", receipt.getRecallHandle()).getMessageId(),
            receipt.getMessageId());
    }

    private Map<String, Object> checkNormal() throws Exception {
        List<String> sent = new ArrayList<>();
        List<String> expected = new ArrayList<>();
        for (int number = 0; number < 3; number++) {
            MessageBuilder made = message(prefix + "Normal", "body " + number).setTag("A")
                .setKeys("k" + number, "common").addProperty("number", "" + number);
            sent.add(producer.send(made.build()).getMessageId().toString());
            expected.add(List.of("body " + number, sent.get(number), prefix + "Normal", "A",
                new TreeSet<>(List.of("k" + number, "common")), "" + number, 1).toString());
        }
        List<String> found = gather(normal, 3).stream().map(view -> List.of(body(view), view.getMessageId().toString(),
            view.getTopic(), view.getTag().orElse("none"), new TreeSet<>(view.getKeys()),
            view.getProperties().get("number"), view.getDeliveryAttempt()).toString()).sorted()
            .collect(Collectors.toList());
        equal(found, expected);
        return Map.of("ids", sent);
    }

    private Map<String, Object> checkInvisible() throws Exception {
        producer.send(message(prefix + "Normal", "later").build());
        List<MessageView> first = gather(normal, 1, false, Duration.ofSeconds(60));
        equal(bodies(first), List.of("later"));
        normal.changeInvisibleDuration(first.get(0), Duration.ofSeconds(1));
        List<MessageView> second = gather(normal, 1);
        equal(bodies(second), List.of("later"));
        equal(second.get(0).getDeliveryAttempt(), 2);
        equal(second.get(0).getMessageId(), first.get(0).getMessageId());
        lastNormal = System.currentTimeMillis();
        return null;
    }

    private Map<String, Object> checkFifo() throws Exception {
        List<String> sent = List.of("a0", "b0", "a1", "b1", "a2", "b2", "a3", "b3");
        for (String body : sent) {
            producer.send(message(prefix + "Fifo", body).setMessageGroup(body.substring(0, 1)).build());
        }
        List<MessageView> found = gather(fifo, sent.size());
        for (String group : List.of("a", "b")) {
            equal(bodies(found).stream().filter(body -> body.startsWith(group)).collect(Collectors.toList()),
                sent.stream().filter(body -> body.startsWith(group)).collect(Collectors.toList()));
        }
        for (MessageView view : found) {
            equal(view.getMessageGroup().orElse("none"), body(view).substring(0, 1));
        }
        return null;
    }

    private Map<String, Object> checkTag() throws Exception {
        int number = 0;
        for (String each : List.of("A", "B", "C", "D")) {
            producer.send(message(prefix + "Filter", each).setTag(each).addProperty("number", "" + number++).build());
        }
        return equal(sorted(gather(tag, 2)), List.of("A", "C"));
    }

    private Map<String, Object> checkDelay() throws Exception {
        List<MessageView> found = gather(delay, 1);
        equal(System.currentTimeMillis() >= due, true);
        equal(bodies(found), List.of("delayed"));
        return equal(found.get(0).getDeliveryTimestamp().orElse(0L), due);
    }

    private Map<String, Object> checkTransaction() throws Exception {
        equal(sorted(gather(transaction, 2)), List.of("ask commit", "commit"));
        until(() -> asked.contains("ask rollback"), asked);
        equal(new TreeSet<>(asked).toString(), "[ask commit, ask rollback]");
        return Map.of("asked", new ArrayList<>(asked));
    }

    private Map<String, Object> checkPush() throws Exception {
        List<String> wanted = List.of("again 1", "again 2", "dead 1", "dead 2", "one 1", "three 1", "two 1");
        until(() -> pushed.size() >= wanted.size(), pushed);
        return equal(pushed.stream().sorted().collect(Collectors.toList()), wanted);
    }

    private Map<String, Object> checkOrdered() throws Exception {
        until(() -> ordered.contains("three 1"), ordered);
        equal(ordered.stream().map(each -> each.split(" ")[0]).distinct().collect(Collectors.toList()),
            List.of("one", "dead", "two", "again", "three"));
        return Map.of("seen", new ArrayList<>(ordered));
    }

    private Map<String, Object> checkDead(String group) throws Exception {
        SimpleConsumer dead = simple("%DLQ%" + prefix + group, group + "-dead", FilterExpression.SUB_ALL);
        return equal(bodies(gather(dead, 1)), List.of("dead"));
    }

    /** What was acknowledged, recalled or rolled back does not arrive, after the invisible time either. */
    private Map<String, Object> checkNothingMore() throws Exception {
        until(() -> System.currentTimeMillis() > lastNormal + INVISIBLE.toMillis() + 2_000, "the clock");
        List<CompletableFuture<List<MessageView>>> asked = Stream.of(normal, delay, transaction, tag, sql, fifo)
            .map(consumer -> consumer.receiveAsync(16, INVISIBLE)).collect(Collectors.toList());
        for (CompletableFuture<List<MessageView>> each : asked) {
            equal(bodies(each.get()), List.of());
        }
        return null;
    }

    private MessageBuilder message(String topic, String body) {
        return provider.newMessageBuilder().setTopic(topic).setBody(body.getBytes(StandardCharsets.UTF_8));
    }

    private static List<MessageView> gather(SimpleConsumer consumer, int count) throws ClientException {
        return gather(consumer, count, true, INVISIBLE);
    }

    private static List<MessageView> gather(SimpleConsumer consumer, int count, boolean ack, Duration invisible)
            throws ClientException {
        List<MessageView> found = new ArrayList<>();
        long end = System.currentTimeMillis() + LIMIT_MS;
        while (found.size() < count && System.currentTimeMillis() < end) {
            for (MessageView each : consumer.receive(16, invisible)) {
                found.add(each);
                if (ack) {
                    consumer.ack(each);
                }
            }
        }
        return found;
    }

    private static String body(MessageView view) {
        return StandardCharsets.UTF_8.decode(view.getBody().duplicate()).toString();
    }

    private static List<String> bodies(List<MessageView> views) {
        return views.stream().map(Sdk::body).collect(Collectors.toList());
    }

    private static List<String> sorted(List<MessageView> views) {
        return views.stream().map(Sdk::body).sorted().collect(Collectors.toList());
    }

    private static Map<String, Object> equal(Object actual, Object expected) {
        if (!actual.equals(expected)) {
            throw new IllegalStateException(actual + " instead of " + expected);
        }
        return null;
    }

    private static void until(Supplier<Boolean> condition, Object shown) throws InterruptedException {
        long end = System.currentTimeMillis() + LIMIT_MS;
        while (!condition.get()) {
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException("after " + LIMIT_MS + " ms: " + shown);
            }
            Thread.sleep(100);
        }
    }

    private static void check(String name, Check check) {
        long start = System.currentTimeMillis();
        Map<String, Object> fields = Events.fields("check", "check", name, "ok", true);
        try {
            Map<String, Object> more = check.run();
            if (more != null) {
                fields.putAll(more);
            }
        } catch (Exception e) {
            fields.put("ok", false);
            fields.put("error", e.toString());
        }
        fields.put("seconds", (System.currentTimeMillis() - start) / 1e3);
        Events.print(fields);
    }

    /** Checks that an action fails; its code is null where the client itself refuses. */
    private static void refused(String name, Action action) {
        check(name, () -> {
            Object result;
            try {
                result = action.run();
            } catch (Exception e) {
                Matcher found = CODE.matcher(e.toString());
                Map<String, Object> fields = Events.fields("check");
                fields.put("code", found.find() ? Integer.valueOf(found.group(1)) : null);
                fields.put("message", e.toString());
                return fields;
            }
            throw new IllegalStateException("not refused: " + result);
        });
    }
}
