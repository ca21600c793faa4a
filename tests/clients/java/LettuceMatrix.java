import io.lettuce.core.KeyValue;
import io.lettuce.core.LettuceFutures;
import io.lettuce.core.LettuceVersion;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Lettuce with its default settings through the script of the matrix (../README.md). */
final class LettuceMatrix extends Matrix {
    private final RedisClient client;
    private final StatefulRedisConnection<String, String> connection;
    private final RedisCommands<String, String> redis;

    LettuceMatrix(String[] args) {
        super(args);
        client = RedisClient.create(RedisURI.create(host, port));
        connection = client.connect();
        redis = connection.sync();
    }

    public static void main(String[] args) {
        new LettuceMatrix(args).run("lettuce " + LettuceVersion.getVersion());
    }

    @Override void connect() {
        is("PONG", redis.ping());
        holds(redis.clientId() > 0, "CLIENT ID");
    }

    @Override void strings() {
        String k = key("string");
        is(null, redis.get(k));
        is("OK", redis.set(k, "value"));
        is("value", redis.get(k));
        is(6L, redis.append(k, "!"));
        is("value!", redis.get(k));
        is(List.of(KeyValue.just(k, "value!"), KeyValue.empty(key("absent"))), redis.mget(k, key("absent")));
        is(1L, redis.del(k));
        is(null, redis.get(k));
    }

    @Override void expiry() throws Exception {
        String k = key("expiry");
        is("OK", redis.set(k, "1", SetArgs.Builder.ex(100)));
        long left = redis.ttl(k);
        holds(98 <= left && left <= 100, left);
        is(true, redis.pexpire(k, 60));
        until("the key to expire", () -> redis.get(k) == null);
        is(-2L, redis.ttl(k));
    }

    @Override void pipeline() throws Exception {
        String k = key("pipe");
        var async = connection.async();
        connection.setAutoFlushCommands(false);
        List<RedisFuture<?>> replies = new ArrayList<>();
        for (int i = 0; i < 200; i++) {
            replies.add(async.set(k + i, "" + i));
            replies.add(async.get(k + i));
        }
        RedisFuture<Long> push = async.rpush(k, "a", "b");
        RedisFuture<Long> incr = async.incr(k);
        RedisFuture<List<String>> range = async.lrange(k, 0, -1);
        connection.flushCommands();
        connection.setAutoFlushCommands(true);
        holds(LettuceFutures.awaitAll(Duration.ofSeconds(20), replies.toArray(new RedisFuture[0])), "no replies");
        for (int i = 0; i < 200; i++) {
            is("OK", replies.get(2 * i).get());
            is("" + i, replies.get(2 * i + 1).get());
        }
        is(2L, push.get(20, TimeUnit.SECONDS));
        try {
            incr.get(20, TimeUnit.SECONDS);
            throw new AssertionError("the error in a pipeline was lost");
        } catch (ExecutionException error) {
            holds(error.getCause().getMessage().startsWith("WRONGTYPE"), error);
        }
        is(List.of("a", "b"), range.get(20, TimeUnit.SECONDS));
    }

    @Override void transaction() {
        String k = key("balance");
        is("OK", redis.set(k, "10"));
        is("OK", redis.multi());
        redis.incrby(k, 5);
        redis.get(k);
        redis.rpush(key("log"), "a");
        is(List.of(15L, "15", 1L), redis.exec().stream().toList());
        try (var other = client.connect()) {
            for (boolean meanwhile : new boolean[] {true, false}) {
                is("OK", redis.watch(k));
                long seen = Long.parseLong(redis.get(k));
                if (meanwhile) is("OK", other.sync().set(k, "100"));
                is("OK", redis.multi());
                redis.set(k, "" + seen * 2);
                var result = redis.exec();
                is(meanwhile, result.wasDiscarded());
                is(meanwhile ? List.of() : List.of("OK"), result.stream().toList());
            }
        }
        is("200", redis.get(k));
    }

    private static final class Listener extends RedisPubSubAdapter<String, String> {
        final LinkedBlockingQueue<String> heard = new LinkedBlockingQueue<>();

        @Override public void message(String channel, String message) {
            heard.add(channel + " " + message);
        }
        @Override public void subscribed(String channel, long count) {
            heard.add("subscribe " + channel + " " + count);
        }
        @Override public void unsubscribed(String channel, long count) {
            heard.add("unsubscribe " + channel + " " + count);
        }
        String next() throws Exception {
            return heard.poll(20, TimeUnit.SECONDS);
        }
    }

    @Override void pubsub() throws Exception {
        String channel = key("channel");
        Listener listener = new Listener();
        try (var subscriber = client.connectPubSub()) {
            subscriber.addListener(listener);
            subscriber.sync().subscribe(channel);
            is("subscribe " + channel + " 1", listener.next());
            is(1L, redis.publish(channel, "hello"));
            is(1L, redis.publish(channel, "\0\r\né"));
            is(channel + " hello", listener.next());
            is(channel + " \0\r\né", listener.next());
            subscriber.sync().unsubscribe(channel);
            is("unsubscribe " + channel + " 0", listener.next());
            is(0L, redis.publish(channel, "nobody"));
        }
    }

    @Override void blockingPop() throws Exception {
        String ask = key("ask"), answer = key("answer");
        try (var one = client.connect(); var two = client.connect()) {
            is(null, one.sync().blpop(0.05, ask));
            FutureTask<Void> echo = beside(() -> {
                for (int i = 0; i < 20; i++) redis.rpush(answer, two.sync().brpop(20.0, ask).getValue());
                return null;
            });
            for (int i = 0; i < 20; i++) {
                is(1L, redis.lpush(ask, "" + i));
                is(KeyValue.just(answer, "" + i), one.sync().blpop(20.0, answer));
            }
            echo.get(20, TimeUnit.SECONDS);
        }
    }

    @Override void hash() {
        String k = key("hash");
        is(2L, redis.hset(k, Map.of("name", "Ada", "age", "36")));
        is("Ada", redis.hget(k, "name"));
        is(Map.of("name", "Ada", "age", "36"), redis.hgetall(k));
        is(37L, redis.hincrby(k, "age", 1));
        is(List.of(KeyValue.just("age", "37"), KeyValue.empty("absent")), redis.hmget(k, "age", "absent"));
        is(1L, redis.hdel(k, "name"));
        is(Map.of("age", "37"), redis.hgetall(k));
    }

    @Override void script() {
        String k = key("script");
        String[] keys = {k};
        is("OK", redis.set(k, "1"));
        is("1", redis.get(k));
        is(3L, redis.eval(ADD, ScriptOutputType.INTEGER, keys, "2"));
        is("3", redis.get(k));
        refused("NOSCRIPT", () -> redis.evalsha("0".repeat(40), ScriptOutputType.INTEGER, keys, "4"));
        String sha = redis.scriptLoad(ADD + " -- " + k);
        is(7L, redis.evalsha(sha, ScriptOutputType.INTEGER, keys, "4"));
        is("7", redis.get(k));
    }

    @Override void reconnect() throws Exception {
        String channel = key("news");
        Listener listener = new Listener();
        try (var subscriber = client.connectPubSub()) {
            subscriber.addListener(listener);
            subscriber.sync().subscribe(channel);
            is("subscribe " + channel + " 1", listener.next());
            for (String how : new String[] {"restart", "crash"}) {
                serverIsBackAfter(how);
                is("OK", redis.set(key("after"), how)); // no error is seen
                is(how, redis.get(key("after")));
                // The library subscribes again by itself.
                is("subscribe " + channel + " 1", listener.next());
                is(1L, redis.publish(channel, how));
                is(channel + " " + how, listener.next());
            }
        }
    }
}
