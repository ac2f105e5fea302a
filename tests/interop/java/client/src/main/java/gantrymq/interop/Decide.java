package gantrymq.interop;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A member of a producer group: sends a message in a transaction for each word of --words, if there are any, and then
 * answers checks until standard input is closed. What becomes of a message its own word says, so any member can answer:
 * "commit" and "rollback" are decided at once, "ask-commit" and "ask-rollback" at the first check, "second" is committed
 * at the second check, "never" is never decided. A body is word:prefix-index.
 */
final class Decide implements TransactionListener {
    private final Options options;
    private final Map<String, Integer> checks = new ConcurrentHashMap<>();

    Decide(Options options) {
        this.options = options;
    }

    boolean run() throws Exception {
        CountDownLatch end = new CountDownLatch(1);
        TransactionMQProducer producer = new TransactionMQProducer(options.text("group", "interop-decide"));
        producer.setNamesrvAddr(options.need("namesrv"));
        producer.setInstanceName(options.text("prefix", "member"));
        producer.setPollNameServerInterval(1000);
        producer.setHeartbeatBrokerInterval(1000);
        producer.setTransactionListener(this);
        producer.start();
        String topic = options.need("topic");
        producer.getDefaultMQProducerImpl().getMqClientFactory().updateTopicRouteInfoFromNameServer(topic);
        producer.getDefaultMQProducerImpl().getMqClientFactory().sendHeartbeatToAllBrokerWithLock();
        int index = 0;
        for (String word : options.text("words", "").split(",")) {
            if (!word.isEmpty()) {
                String body = word + ":" + options.text("prefix", "member") + "-" + index++;
                TransactionSendResult result = producer.sendMessageInTransaction(
                    new Message(topic, word, "k" + index, body.getBytes(StandardCharsets.UTF_8)), word);
                Events.print("sent", "body", body, "status", result.getSendStatus().name(), "msgId", result.getMsgId());
            }
        }
        Events.print("started");
        Input.whenClosed(end::countDown);
        end.await();
        producer.shutdown();
        Events.print("done");
        return true;
    }

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object word) {
        return word.equals("commit") ? LocalTransactionState.COMMIT_MESSAGE
            : word.equals("rollback") ? LocalTransactionState.ROLLBACK_MESSAGE
            : LocalTransactionState.UNKNOW;
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        String body = new String(message.getBody(), StandardCharsets.UTF_8);
        int times = checks.merge(body, 1, Integer::sum);
        Events.print("asked", "body", body, "nth", times, "counted", message.getProperty("TRANSACTION_CHECK_TIMES"));
        String word = body.substring(0, body.indexOf(':'));
        if (word.equals("never") || (word.equals("second") && times == 1)) {
            return LocalTransactionState.UNKNOW;
        }
        return word.endsWith("rollback") ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.COMMIT_MESSAGE;
    }
}
