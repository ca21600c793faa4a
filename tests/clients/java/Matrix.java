import java.util.LinkedHashMap;
import java.util.Map;
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

    private static boolean passes(String name, Check check) {
        try {
            check.run();
            System.out.println("ok " + name);
            return true;
        } catch (Throwable error) {
            System.out.println("FAILED " + name + ": " + error);
            for (StackTraceElement frame : error.getStackTrace())
                if (frame.getFileName() != null && frame.getFileName().matches("(Jedis|Lettuce|Memcached).*")) System.out.println("    " + frame);
            return false;
        }
    }

    /** Goes through the checks of the matrix and ends the program. */
    void run(String library) {
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("connect", this::connect);
        checks.put("strings", this::strings);
        checks.put("expiry", this::expiry);
        checks.put("pipeline", this::pipeline);
        checks.put("transaction", this::transaction);
        checks.put("pubsub", this::pubsub);
        checks.put("blocking_pop", this::blockingPop);
        checks.put("hash", this::hash);
        checks.put("script", this::script);
        checks.put("reconnect", this::reconnect);
        run(library, checks);
    }

    /** Goes through checks and ends the program. */
    static void run(String library, Map<String, Check> checks) {
        long failed = checks.entrySet().stream().filter(check -> !passes(check.getKey(), check.getValue())).count();
        System.out.println(library + ": " + (checks.size() - failed) + " passed, " + failed + " failed");
        System.exit(failed == 0 ? 0 : 1);
    }
}
