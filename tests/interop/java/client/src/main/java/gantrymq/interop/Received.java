package gantrymq.interop;

import java.util.Map;
import org.apache.rocketmq.common.message.MessageExt;

/** Prints a message as a consumer got it. */
final class Received {
    private Received() {
    }

    static void print(MessageExt message) {
        Map<String, Object> line = Events.fields("received", "topic", message.getTopic(),
            "brokerName", message.getBrokerName(), "queueId", message.getQueueId(),
            "queueOffset", message.getQueueOffset(), "logOffset", message.getCommitLogOffset(),
            "msgId", message.getMsgId(), "tags", message.getTags(), "keys", message.getKeys(),
            "reconsumeTimes", message.getReconsumeTimes(), "bornHost", String.valueOf(message.getBornHost()),
            "storeHost", String.valueOf(message.getStoreHost()), "bornTimestamp", message.getBornTimestamp(),
            "storeTimestamp", message.getStoreTimestamp(), "properties", message.getProperties());
        Events.addBody(line, message.getBody());
        Events.print(line);
    }
}
