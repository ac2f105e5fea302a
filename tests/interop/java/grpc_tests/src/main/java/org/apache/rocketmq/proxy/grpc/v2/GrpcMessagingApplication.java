package org.apache.rocketmq.proxy.grpc.v2;

import apache.rocketmq.v2.MessagingServiceGrpc;
import org.apache.rocketmq.proxy.processor.MessagingProcessor;

/** In place of the proxy's class of this name: the broker serves the requests. */
public final class GrpcMessagingApplication extends MessagingServiceGrpc.MessagingServiceImplBase {
    private GrpcMessagingApplication() {
    }

    public static GrpcMessagingApplication create(MessagingProcessor processor) {
        return new GrpcMessagingApplication();
    }

    public void start() {
    }

    public void shutdown() {
    }
}
