package io.grpc.netty.shaded.io.grpc.netty;

import io.grpc.Server;
import io.grpc.ServerServiceDefinition;
import java.io.File;
import java.util.concurrent.TimeUnit;

/**
 * In place of gRPC's class of this name: the server that it "starts" is the broker that runs already, with its gRPC
 * port in the property gantrymq.grpc.port. So the tests of RocketMQ connect to it without a change.
 */
public final class NettyServerBuilder {
    private NettyServerBuilder() {
    }

    public static NettyServerBuilder forPort(int port) {
        return new NettyServerBuilder();
    }

    public NettyServerBuilder directExecutor() {
        return this;
    }

    public NettyServerBuilder addService(ServerServiceDefinition service) {
        return this;
    }

    public NettyServerBuilder useTransportSecurity(File certificate, File privateKey) {
        return this;
    }

    public Server build() {
        return new Running();
    }

    private static final class Running extends Server {
        private boolean isShutdown;

        @Override
        public Server start() {
            return this;
        }

        @Override
        public int getPort() {
            return Integer.getInteger("gantrymq.grpc.port");
        }

        @Override
        public Server shutdown() {
            isShutdown = true;
            return this;
        }

        @Override
        public Server shutdownNow() {
            return shutdown();
        }

        @Override
        public boolean isShutdown() {
            return isShutdown;
        }

        @Override
        public boolean isTerminated() {
            return isShutdown;
        }

        @Override
        public boolean awaitTermination(long timeout, TimeUnit unit) {
            return true;
        }

        @Override
        public void awaitTermination() {
        }
    }
}
