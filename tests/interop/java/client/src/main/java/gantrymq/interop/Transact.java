package gantrymq.interop;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends one message in a transaction for each word of --decide: "commit" and "rollback" are decided at once, "ask" when
 * the broker asks (and is then committed). Prints what was sent and what was asked, and waits until each "ask" was asked.
 */
final class Transact {
    private static final int ASKED_S = 60;
    private final Options options;

    Transact(Options options) {
        this.options = options;
    }

    boolean run() throws Exception {
        String[] words = options.need("decide").split(",");
        int asks = 0;
        for (String word : words) {
            asks += word.equals("ask") ? 1 : 0;
        }
        CountDownLatch asked = new CountDownLatch(asks);
        String group = options.text("group", "interop-transactions");
        TransactionMQProducer producer = new TransactionMQProducer(null, group, Account.hook(), options.has("trace"), null);
        producer.setNamesrvAddr(options.need("namesrv"));
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object wish) {
                return wish.equals("commit") ? LocalTransactionState.COMMIT_MESSAGE
                    : wish.equals("rollback") ? LocalTransactionState.ROLLBACK_MESSAGE
                    : LocalTransactionState.UNKNOW;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                String body = new String(message.getBody(), StandardCharsets.UTF_8);
                Events.print("asked", "body", body);
                asked.countDown();
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        producer.start();
        boolean good;
        try {
            for (int i = 0; i < words.length; i++) {
                byte[] body = (words[i] + i).getBytes(StandardCharsets.UTF_8);
                TransactionSendResult result =
                    producer.sendMessageInTransaction(new Message(options.need("topic"), "tag", body), words[i]);
                Events.print("sent", "index", i, "status", result.getSendStatus().name(),
                    "state", result.getLocalTransactionState().name());
            }
            good = asked.await(ASKED_S, TimeUnit.SECONDS);
            Thread.sleep(500); // the answer to a check is oneway: let it leave
        } finally {
            producer.shutdown();
        }
        Events.print("done", "failed", good ? 0 : 1);
        return good;
    }
}
