import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.params.SetParams;

/** Jedis with its default settings through the script of the matrix (../README.md). */
final class JedisMatrix extends Matrix {
    private final RedisClient redis;

    JedisMatrix(String[] args) {
        super(args);
        redis = RedisClient.create(host, port);
    }

    public static void main(String[] args) {
        // The manifest has no version: the jar's name has it.
        String jar = RedisClient.class.getProtectionDomain().getCodeSource().getLocation().getPath();
        new JedisMatrix(args).run(jar.replaceAll(".*/(jedis)-(.*)\\.jar", "$1 $2"));
    }

    @Override void connect() {
        is("PONG", redis.ping());
    }

    @Override void strings() {
        String k = key("string");
        is(null, redis.get(k));
        is("OK", redis.set(k, "value"));
        is("value", redis.get(k));
        is(6L, redis.append(k, "!"));
        is("value!", redis.get(k));
        is(Arrays.asList("value!", null), redis.mget(k, key("absent")));
        is(1L, redis.del(k));
        is(null, redis.get(k));
    }

    @Override void expiry() throws Exception {
        String k = key("expiry");
        is("OK", redis.set(k, "1", SetParams.setParams().ex(100)));
        long left = redis.ttl(k);
        holds(98 <= left && left <= 100, left);
        is(1L, redis.pexpire(k, 60));
        until("the key to expire", () -> redis.get(k) == null);
        is(-2L, redis.ttl(k));
    }

    @Override void pipeline() {
        String k = key("pipe");
        try (var pipe = redis.pipelined()) {
            for (int i = 0; i < 200; i++) {
                pipe.set(k + i, "" + i);
                pipe.get(k + i);
            }
            pipe.rpush(k, "a", "b");
            pipe.incr(k);
            pipe.lrange(k, 0, -1);
            List<Object> replies = pipe.syncAndReturnAll();
            for (int i = 0; i < 200; i++) {
                is("OK", replies.get(2 * i));
                is("" + i, replies.get(2 * i + 1));
            }
            is(2L, replies.get(400));
            holds(replies.get(401).toString().contains("WRONGTYPE"), replies.get(401));
            is(List.of("a", "b"), replies.get(402));
        }
    }

    @Override void transaction() {
        String k = key("balance");
        is("OK", redis.set(k, "10"));
        try (var multi = redis.multi()) {
            multi.incrBy(k, 5);
            multi.get(k);
            multi.rpush(key("log"), "a");
            is(List.of(15L, "15", 1L), multi.exec());
        }
        for (boolean meanwhile : new boolean[] {true, false}) {
            try (var watching = redis.transaction(false)) {
                is("OK", watching.watch(k));
                long seen = Long.parseLong(redis.get(k));
                if (meanwhile) is("OK", redis.set(k, "100")); // on another connection
                watching.multi();
                watching.set(k, "" + seen * 2);
                is(meanwhile ? null : List.of("OK"), watching.exec());
            }
        }
        is("200", redis.get(k));
    }

    private final class Listener extends JedisPubSub {
        final LinkedBlockingQueue<String> heard = new LinkedBlockingQueue<>();

        @Override public void onMessage(String channel, String message) {
            heard.add(channel + " " + message);
        }
        @Override public void onSubscribe(String channel, int count) {
            heard.add("subscribe " + channel + " " + count);
        }
        @Override public void onUnsubscribe(String channel, int count) {
            heard.add("unsubscribe " + channel + " " + count);
        }
        String next() throws Exception {
            return heard.poll(20, TimeUnit.SECONDS);
        }
    }

    @Override void pubsub() throws Exception {
        String channel = key("channel");
        Listener listener = new Listener();
        FutureTask<Void> ended = beside(() -> {
            redis.subscribe(listener, channel);
            return null;
        });
        is("subscribe " + channel + " 1", listener.next());
        is(1L, redis.publish(channel, "hello"));
        is(1L, redis.publish(channel, "\0\r\né"));
        is(channel + " hello", listener.next());
        is(channel + " \0\r\né", listener.next());
        listener.unsubscribe(channel);
        is("unsubscribe " + channel + " 0", listener.next());
        ended.get(20, TimeUnit.SECONDS);
        is(0L, redis.publish(channel, "nobody"));
    }

    @Override void blockingPop() throws Exception {
        String ask = key("ask"), answer = key("answer");
        is(null, redis.blpop(0.05, ask));
        FutureTask<Void> echo = beside(() -> {
            for (int i = 0; i < 20; i++) redis.rpush(answer, redis.brpop(20.0, ask).getValue());
            return null;
        });
        for (int i = 0; i < 20; i++) {
            is(1L, redis.lpush(ask, "" + i));
            var popped = redis.blpop(20.0, answer);
            is(answer, popped.getKey());
            is("" + i, popped.getValue());
        }
        echo.get(20, TimeUnit.SECONDS);
    }

    @Override void hash() {
        String k = key("hash");
        is(2L, redis.hset(k, Map.of("name", "Ada", "age", "36")));
        is("Ada", redis.hget(k, "name"));
        is(Map.of("name", "Ada", "age", "36"), redis.hgetAll(k));
        is(37L, redis.hincrBy(k, "age", 1));
        is(Arrays.asList("37", null), redis.hmget(k, "age", "absent"));
        is(1L, redis.hdel(k, "name"));
        is(Map.of("age", "37"), redis.hgetAll(k));
    }

    @Override void script() {
        String k = key("script");
        is("OK", redis.set(k, "1"));
        is("1", redis.get(k));
        is(3L, redis.eval(ADD, List.of(k), List.of("2")));
        is("3", redis.get(k));
        refused("NOSCRIPT", () -> redis.evalsha("0".repeat(40), List.of(k), List.of("4")));
        String sha = redis.scriptLoad(ADD + " -- " + k);
        is(7L, redis.evalsha(sha, List.of(k), List.of("4")));
        is("7", redis.get(k));
    }

    @Override void reconnect() throws Exception {
        for (String how : new String[] {"restart", "crash"}) {
            int idle = redis.getPool().getNumIdle();
            serverIsBackAfter(how);
            // Each connection of the pool says once that it is lost and is replaced: Jedis does not try again by itself.
            int[] lost = {0};
            until("a command", () -> {
                try {
                    return redis.set(key("after"), how).equals("OK");
                } catch (JedisConnectionException error) {
                    lost[0]++;
                    return false;
                }
            });
            holds(lost[0] <= idle, lost[0] + " errors from " + idle + " connections");
            is(how, redis.get(key("after")));
        }
    }
}
