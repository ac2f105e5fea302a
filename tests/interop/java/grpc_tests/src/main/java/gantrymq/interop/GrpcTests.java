package gantrymq.interop;

import java.util.concurrent.atomic.AtomicReference;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;
import org.junit.runners.BlockJUnit4ClassRunner;
import org.junit.runners.model.FrameworkMethod;

/**
 * Runs all tests of a class of RocketMQ, also those that are switched off there. Each prints an event: its name, the
 * seconds that it took, and why it failed, or null.
 */
public final class GrpcTests {
    private GrpcTests() {
    }

    public static void main(String[] args) throws Exception {
        Events.claimOutput();
        JUnitCore core = new JUnitCore();
        core.addListener(new Printer());
        core.run(new All(Class.forName(args[0])));
        Events.print("done");
        System.exit(0);
    }

    private static final class All extends BlockJUnit4ClassRunner {
        All(Class<?> tests) throws Exception {
            super(tests);
        }

        @Override
        protected boolean isIgnored(FrameworkMethod test) {
            return false;
        }
    }

    private static final class Printer extends RunListener {
        private final AtomicReference<String> problem = new AtomicReference<>();
        private long began;

        @Override
        public void testStarted(Description test) {
            problem.set(null);
            began = System.nanoTime();
        }

        @Override
        public void testFailure(Failure failure) {
            problem.compareAndSet(null, failure.getTrace()); // the first: a failed test may fail its tear-down too
        }

        @Override
        public void testFinished(Description test) {
            Events.print("test", "name", test.getMethodName(), "seconds",
                (System.nanoTime() - began) / 1e9, "problem", problem.get());
        }
    }
}
