package gantrymq.interop;

import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;

/** Prints what the remoting client throws. */
final class Errors {
    private Errors() {
    }

    static void print(int index, Throwable e) {
        Integer code = e instanceof MQBrokerException ? Integer.valueOf(((MQBrokerException) e).getResponseCode())
            : e instanceof MQClientException ? Integer.valueOf(((MQClientException) e).getResponseCode()) : null;
        Events.print("error", "index", index, "class", e.getClass().getSimpleName(), "code", code, "message", e.getMessage());
    }
}
