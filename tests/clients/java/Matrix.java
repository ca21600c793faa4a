import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;

/** Goes through the checks of the matrix (../README.md) and reports them. */
abstract class Matrix {
    static final String ADD = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
    final String host;
    final int port;
    private final String prefix;

    Matrix(String[] args) {
        host = args[0].substring(0, args[0].lastIndexOf(':'));
        port = Integer.parseInt(args[0].substring(args[0].lastIndexOf(':') + 1));
        prefix = args[1];
    }

    abstract void connect() throws Exception;
    abstract void strings() throws Exception;
    abstract void expiry() throws Exception;
    abstract void pipeline() throws Exception;
    abstract void transaction() throws Exception;
    abstract void pubsub() throws Exception;
    abstract void blockingPop() throws Exception;
    abstract void hash() throws Exception;
    abstract void script() throws Exception;
    abstract void reconnect() throws Exception;

    String key(String name) {
        return prefix + ":" + name;
    }

    static void is(Object want, Object got) {
        if (!Objects.deepEquals(want, got)) throw new AssertionError("got " + got + ", want " + want);
    }

    static void holds(boolean truth, Object what) {
        if (!truth) throw new AssertionError(what);
    }

    /** Demands an error whose text begins so. */
    static void refused(String text, Callable<?> what) {
        Object got;
        try {
            got = what.call();
        } catch (Exception error) {
            got = error;
        }
        holds(got instanceof Exception error && error.getMessage().startsWith(text), got);
    }

    static void until(String what, Callable<Boolean> done) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (!done.call()) {
            holds(System.nanoTime() < end, "waited too long: " + what);
            Thread.sleep(5);
        }
    }

    /** Runs it beside; its result, or its error, comes from the future. */
    static <T> FutureTask<T> beside(Callable<T> what) {
        FutureTask<T> task = new FutureTask<>(what);
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
        return task;
    }

    /** Has the server gone ("restart" in good order, "crash") and waits until it is back. */
    static void serverIsBackAfter(String how) throws Exception {
        System.out.println(how);
        StringBuilder line = new StringBuilder();
        for (int c = System.in.read(); c >= 0 && c != '\n'; c = System.in.read()) line.append((char) c);
        is("done", line.toString());
    }

    interface Check {
        void run() throws Exception;
    }

    private int failed;

    private void check(String name, Check check) {
        try {
            check.run();
            System.out.println("ok " + name);
        } catch (Throwable error) {
            failed++;
            System.out.println("FAILED " + name + ": " + error);
            for (StackTraceElement frame : error.getStackTrace())
                if (frame.getFileName() != null && frame.getFileName().endsWith("Matrix.java")) System.out.println("    " + frame);
        }
    }

    void run(String library) {
        check("connect", this::connect);
        check("strings", this::strings);
        check("expiry", this::expiry);
        check("pipeline", this::pipeline);
        check("transaction", this::transaction);
        check("pubsub", this::pubsub);
        check("blocking_pop", this::blockingPop);
        check("hash", this::hash);
        check("script", this::script);
        check("reconnect", this::reconnect);
        System.out.println(library + ": " + (10 - failed) + " passed, " + failed + " failed");
        System.exit(failed == 0 ? 0 : 1);
    }
}
