package gantrymq.interop;

import java.io.IOException;

/** Standard input, whose end asks a driver to leave in good order. */
final class Input {
    private Input() {
    }

    /** Run *work* in a thread of its own once standard input is closed. */
    static void whenClosed(Runnable work) {
        Thread reader = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    continue;
                }
            } catch (IOException e) {
                Errors.print(-1, e);
            }
            work.run();
        });
        reader.setDaemon(true);
        reader.start();
    }
}
