import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.FutureTask;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.MemcachedClient;
import net.spy.memcached.transcoders.SerializingTranscoder;

/** spymemcached, with a longer deadline than its 2.5 s: MemcachedChecks HOST:PORT PREFIX [redis]. The checks: ../README.md.
 *
 *  With `redis`, values are not compressed: that is a client flag, which a Redis behind Larder cannot keep. */
final class MemcachedChecks {
    private final String host;
    private final int port;
    private final String prefix;
    private final boolean compresses;
    private final MemcachedClient client;

    MemcachedChecks(String[] args) throws Exception {
        host = args[0].substring(0, args[0].lastIndexOf(':'));
        port = Integer.parseInt(args[0].substring(args[0].lastIndexOf(':') + 1));
        prefix = args[1];
        compresses = args.length == 2;
        client = another();
    }

    MemcachedClient another() throws Exception {
        var settings = new ConnectionFactoryBuilder().setOpTimeout(20_000);
        if (!compresses) {
            var values = new SerializingTranscoder();
            values.setCompressionThreshold(Integer.MAX_VALUE);
            settings.setTranscoder(values);
        }
        return new MemcachedClient(settings.build(), List.of(new InetSocketAddress(host, port)));
    }

    String key(String name) {
        return prefix + ":" + name;
    }

    void connect() {
        String version = client.getVersions().values().iterator().next();
        Matrix.holds(version.matches("\\d+\\.\\d+\\.\\d+.*"), version);
    }

    void strings() throws Exception {
        String k = key("string");
        Matrix.is(null, client.get(k));
        Matrix.is(false, client.replace(k, 0, "x").get());
        Matrix.is(true, client.add(k, 0, "b").get());
        Matrix.is(false, client.add(k, 0, "x").get());
        Matrix.is(true, client.append(k, "c").get());
        Matrix.is(true, client.prepend(k, "a").get());
        Matrix.is("abc", client.get(k));
        Matrix.is(true, client.set(k, 0, "value").get());
        Matrix.is("value", client.get(k));
    }

    void many() throws Exception {
        Map<String, Object> pairs = new HashMap<>();
        for (int i = 0; i < 50; i++) pairs.put(key("many" + i), "v" + i);
        for (var pair : pairs.entrySet()) Matrix.is(true, client.set(pair.getKey(), 0, pair.getValue()).get());
        var keys = new ArrayList<>(pairs.keySet());
        keys.add(key("absent"));
        Matrix.is(pairs, client.getBulk(keys));
    }

    void expiry() throws Exception {
        String k = key("expiry");
        Matrix.is(true, client.set(k, 1, "1").get());
        Matrix.is(true, client.touch(k, 100).get());
        Matrix.is(true, client.touch(k, 1).get());
        Matrix.until("the key to expire", () -> client.get(k) == null);
        Matrix.is(false, client.touch(k, 100).get());
    }

    void delete() throws Exception {
        String k = key("deleted");
        Matrix.is(true, client.set(k, 0, "1").get());
        Matrix.is(true, client.delete(k).get());
        Matrix.is(false, client.delete(k).get());
        Matrix.is(null, client.get(k));
    }

    void counters() throws Exception {
        String k = key("counter");
        Matrix.is(-1L, client.incr(k, 1));
        Matrix.is(true, client.set(k, 0, "1").get());
        Matrix.is(42L, client.incr(k, 41));
        Matrix.is(0L, client.decr(k, 100));
        Matrix.is(7L, client.incr(k, 7));
        Matrix.is(10L, client.incr(key("made"), 1, 10));
    }

    void cas() throws Exception {
        String k = key("cas");
        Matrix.is(CASResponse.NOT_FOUND, client.cas(k, 1, "x"));
        Matrix.is(true, client.set(k, 0, "old").get());
        CASValue<Object> seen = client.gets(k);
        Matrix.is("old", seen.getValue());
        var other = another();
        Matrix.is(true, other.set(k, 0, "other").get());
        other.shutdown();
        Matrix.is(CASResponse.EXISTS, client.cas(k, seen.getCas(), "new"));
        Matrix.is(CASResponse.OK, client.cas(k, client.gets(k).getCas(), "new"));
        Matrix.is("new", client.get(k));
    }

    void binary() throws Exception {
        String k = key("binary"), all = "\0\t\r\n\u00e9\u4e2d END VALUE";
        Matrix.is(true, client.set(k, 0, all).get());
        Matrix.is(all, client.get(k));
        Matrix.is(true, client.set(k, 0, "").get());
        Matrix.is("", client.get(k));
    }

    void large() throws Exception {
        String value = "0123456789abcde\n".repeat(62_000);
        Matrix.is(true, client.set(key("large"), 0, value).get());
        Matrix.is(value, client.get(key("large")));
    }

    void errors() {
        try {
            client.get(key("long".repeat(70)));
            throw new AssertionError("a key of 280 bytes was taken");
        } catch (IllegalArgumentException error) {
            connect();
        }
    }

    void parallel() throws Exception {
        Matrix.is(true, client.set(key("parallel"), 0, "0").get());
        var workers = new ArrayList<FutureTask<Void>>();
        for (int worker = 0; worker < 16; worker++) {
            String mine = key("parallel" + worker + ":");
            workers.add(Matrix.beside(() -> {
                for (int i = 0; i < 50; i++) {
                    Matrix.holds(client.incr(key("parallel"), 1) > 0, "a count");
                    Matrix.is(true, client.set(mine + i, 0, "" + i).get());
                    Matrix.is("" + i, client.get(mine + i));
                }
                return null;
            }));
        }
        for (var worker : workers) worker.get();
        Matrix.is("800", client.get(key("parallel")));
    }

    void flush() throws Exception {
        Matrix.is(true, client.flush().get());
        Matrix.is(null, client.get(key("string")));
    }

    public static void main(String[] args) throws Exception {
        var checks = new MemcachedChecks(args);
        Map<String, Matrix.Check> all = new LinkedHashMap<>();
        all.put("connect", checks::connect);
        all.put("strings", checks::strings);
        all.put("many", checks::many);
        all.put("expiry", checks::expiry);
        all.put("delete", checks::delete);
        all.put("counters", checks::counters);
        all.put("cas", checks::cas);
        all.put("binary", checks::binary);
        all.put("large", checks::large);
        all.put("errors", checks::errors);
        all.put("parallel", checks::parallel);
        all.put("flush", checks::flush);
        String jar = MemcachedClient.class.getProtectionDomain().getCodeSource().getLocation().getPath();
        Matrix.run(jar.replaceAll(".*/(spymemcached)-(.*)\\.jar", "$1 $2"), all);
    }
}
