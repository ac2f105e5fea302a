package io.netty.handler.ssl.util;

import java.io.File;

/** In place of Netty's class of this name: no certificate, as the broker has its own, and making one takes seconds. */
public final class SelfSignedCertificate {
    public File certificate() {
        return null;
    }

    public File privateKey() {
        return null;
    }
}
