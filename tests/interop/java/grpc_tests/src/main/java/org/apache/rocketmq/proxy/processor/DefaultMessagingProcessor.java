package org.apache.rocketmq.proxy.processor;

import java.lang.reflect.Proxy;

/** In place of the proxy's class of this name: a processor that does nothing, as the broker serves the requests. */
public final class DefaultMessagingProcessor {
    private DefaultMessagingProcessor() {
    }

    public static MessagingProcessor createForLocalMode(Object broker) {
        Class<?>[] types = {MessagingProcessor.class};
        return (MessagingProcessor) Proxy.newProxyInstance(types[0].getClassLoader(), types, (self, method, args) -> null);
    }
}
